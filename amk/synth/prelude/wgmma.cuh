// wgmma: groups, and the descriptor of a tile in shared memory: start, strides and swizzle in units of 16 bytes.
__device__ __forceinline__ void amk_fence_wgmma() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void amk_commit_wgmma() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> __device__ __forceinline__ void amk_wait_wgmma() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}
template <int LEADING, int STRIDE, int SWIZZLE> __device__ __forceinline__ unsigned long long amk_tile(unsigned start) {
  return (unsigned long long)(STRIDE + ((unsigned)SWIZZLE << 30)) << 32 | (start + ((unsigned)LEADING << 16));
}
