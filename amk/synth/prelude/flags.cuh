// Flags between blocks: acquire and release at the scope of the device, and no stronger.
template <class T> __device__ __forceinline__ T amk_load_acquire(const T* flag) {
  T value;
  asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  return value;
}
template <class T> __device__ __forceinline__ void amk_store_release(T* flag, T value) {
  asm volatile("st.release.gpu.global.b32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}
template <class T> __device__ __forceinline__ void amk_count_up(T* flag, T value) {
  asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}
template <class T> __device__ __forceinline__ T amk_count_release(T* flag, T value) {
  T old;
  asm volatile("atom.release.gpu.global.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(flag), "r"(value) : "memory");
  return old;
}
template <class T> __device__ __forceinline__ T amk_count_acquire(T* flag, T value) {
  T old;
  asm volatile("atom.acquire.gpu.global.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(flag), "r"(value) : "memory");
  return old;
}
template <class T> __device__ __forceinline__ T amk_count_acq_rel(T* flag, T value) {
  T old;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(flag), "r"(value) : "memory");
  return old;
}
template <class T> __device__ __forceinline__ void amk_wait_flag(const T* flag, T value) {
  while (amk_load_acquire(flag) < value) {
  }
}
