// Addresses in shared memory as instructions take them; in a cluster, the rank of the block stands above bit 24.
__device__ __forceinline__ unsigned amk_shared(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ __forceinline__ unsigned amk_peer(unsigned at, unsigned rank) {
  unsigned r;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(at), "r"(rank));
  return r;
}
