// The number of a block in the order in which blocks start: those before it run, or have ended.
__device__ __forceinline__ int amk_turn(unsigned* turn, unsigned* mine) {
  if (threadIdx.x == 0) *mine = atomicAdd(turn, 1u);
  __syncthreads();
  return (int)*mine;
}
