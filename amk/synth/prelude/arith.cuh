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
