// mixed for sm_80, printed by amk: change its descriptor, not this text.
// The smaller and the larger of two values; for floats a NaN wins, as in NumPy.
template <typename T> __device__ __forceinline__ T amk_min(T a, T b) { return a < b || a != a ? a : b; }
template <typename T> __device__ __forceinline__ T amk_max(T a, T b) { return a > b || a != a ? a : b; }
#ifndef AMK_SHIM
template <> __device__ __forceinline__ float amk_min<float>(float a, float b) {
  float r;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}
template <> __device__ __forceinline__ float amk_max<float>(float a, float b) {
  float r;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}
#endif
// The quotient rounded up, for positive b; unlike (a + b - 1) / b it cannot overflow.
template <typename T> __device__ __forceinline__ T amk_cdiv(T a, T b) { return a / b + (a % b > 0); }
// Asynchronous copies from global to shared memory; where `when` is false nothing is read and zeros are written.
#ifndef AMK_SHIM
template <int N> __device__ __forceinline__ void amk_cp_async(void* dst, const void* src, bool when) {
  const unsigned to = (unsigned)__cvta_generic_to_shared(dst);
  const int bytes = when ? N : 0;
  if constexpr (N == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(src), "r"(bytes) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(src), "n"(N), "r"(bytes) : "memory");
}
__device__ __forceinline__ void amk_commit_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> __device__ __forceinline__ void amk_wait_group() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}
#endif
// 16-bit floats are stored as their bits and computed with as float.
__device__ __forceinline__ float amk_bf16_to_f32(unsigned short bits) { return __uint_as_float((unsigned)bits << 16); }
#ifndef AMK_SHIM
__device__ __forceinline__ float amk_f16_to_f32(unsigned short bits) {
  float r;
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(bits));
  return r;
}
#endif
// N elements that move in one instruction.
template <typename T, int N> struct alignas(sizeof(T) * N) amk_vec { T v[N]; };
template <int N, typename T> __device__ __forceinline__ amk_vec<T, N> amk_load(const T* p) {
  return *(const amk_vec<T, N>*)p;
}
template <typename T, typename... V> __device__ __forceinline__ void amk_store(T* p, V... v) {
  *(amk_vec<T, sizeof...(V)>*)p = amk_vec<T, sizeof...(V)>{{(T)v...}};
}
extern "C" __global__ void __launch_bounds__(64, 2)
mixed(const int n, const long long shift, const unsigned short* __restrict__ half, unsigned char* __restrict__ octets, long long* __restrict__ count, const int* __restrict__ low, int* __restrict__ peak) {
  const int t = threadIdx.x;
  extern __shared__ __align__(1024) unsigned char smem[];
  unsigned short h[8];
  unsigned char o[8];
  int r[2];
  int* const sh = (int*)(smem + 0);
  double wide[1];
  // the launcher checks n % 8 < 1
  if (t < n) {
    { const auto v_ = amk_load<8>(&half[(long long)t * 8LL]); h[0] = v_.v[0]; h[1] = v_.v[1]; h[2] = v_.v[2]; h[3] = v_.v[3]; h[4] = v_.v[4]; h[5] = v_.v[5]; h[6] = v_.v[6]; h[7] = v_.v[7]; }
  } else {
    h[0] = 0; h[1] = 0; h[2] = 0; h[3] = 0; h[4] = 0; h[5] = 0; h[6] = 0; h[7] = 0;
  }
  wide[0] = (double)(amk_bf16_to_f32(h[0]) * 0.1f) + amk_max<double>((double)amk_bf16_to_f32(h[1]), 1e+300);
  o[0] = 1; o[1] = 2; o[2] = 3; o[3] = 4; o[4] = 5; o[5] = 6; o[6] = 7; o[7] = 8;
  amk_store(&octets[(long long)t * 8LL], o[0], o[1], o[2], o[3], o[4], o[5], o[6], o[7]);
  amk_cp_async<4>(&sh[t], &low[t * 2], t < n);
  amk_commit_group();
  amk_wait_group<0>();
  __syncwarp();
  r[0] = sh[t ^ 1];
  r[1] = __shfl_xor_sync(0xffffffffu, r[0] + 1, 3);
  r[0] = __shfl_sync(0xffffffffu, r[1], t % 4);
  r[0] = __shfl_up_sync(0xffffffffu, (t < 3) ? r[0] : (-5), 1);
  int x = 0;
  int y = 1;
  #pragma unroll 2
  for (int i = 0; i < amk_min<int>(n, 7); ++i) {
    const int next0_ = (x + 1) % 3;
    const int next1_ = y ^ 1;
    x = next0_;
    y = next1_;
  }
  const long long big = (long long)n * shift + amk_max<long long>(shift, 3LL);
  atomicAdd((unsigned long long*)&count[0], (unsigned long long)(big - 1LL));
  atomicMax(&peak[t % 8], y - (x - 2));
  { const int v0_ = r[1], v1_ = r[0]; r[0] = v0_; r[1] = v1_; }
}
