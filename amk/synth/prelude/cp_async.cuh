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
