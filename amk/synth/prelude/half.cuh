// 16-bit floats are stored as their bits and computed with as float.
__device__ __forceinline__ float amk_bf16_to_f32(unsigned short bits) { return __uint_as_float((unsigned)bits << 16); }
#ifndef AMK_SHIM
__device__ __forceinline__ float amk_f16_to_f32(unsigned short bits) {
  float r;
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(bits));
  return r;
}
#endif
