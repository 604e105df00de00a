// Named barriers, the fence of the asynchronous proxy, register budgets of roles, and dependent launches.
template <int ID, int N> __device__ __forceinline__ void amk_bar_sync() {
  asm volatile("barrier.sync.aligned %0, %1;" ::"n"(ID), "n"(N) : "memory");
}
template <int ID, int N> __device__ __forceinline__ void amk_bar_arrive() {
  asm volatile("barrier.arrive.aligned %0, %1;" ::"n"(ID), "n"(N) : "memory");
}
__device__ __forceinline__ void amk_fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
template <int N> __device__ __forceinline__ void amk_fewer_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}
template <int N> __device__ __forceinline__ void amk_more_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}
__device__ __forceinline__ void amk_dependents_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ __forceinline__ void amk_dependents_launch() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
