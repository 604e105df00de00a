// A wait for a flag that gives up once something has failed: a store that was left out never sets it.
template <typename F, class T> __device__ __forceinline__ void amk_wait_flag_or_fault(const F* faults, const T* flag, T value) {
  T found;
  do {
    asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" : "=r"(found) : "l"(flag) : "memory");
  } while (found < value && *(const volatile unsigned long long*)&faults->count == 0ULL);
}
