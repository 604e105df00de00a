// Clusters: the rank of the block, barriers of all blocks (relaxed ones order execution only), memory of a peer.
__device__ __forceinline__ int amk_rank() {
  int r;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
  return r;
}
__device__ __forceinline__ void amk_cluster_arrive() { asm volatile("barrier.cluster.arrive.release;" ::: "memory"); }
__device__ __forceinline__ void amk_cluster_arrive_relaxed() { asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory"); }
__device__ __forceinline__ void amk_cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }
__device__ __forceinline__ void amk_cluster_wait_relaxed() { asm volatile("barrier.cluster.wait;" ::: "memory"); }
