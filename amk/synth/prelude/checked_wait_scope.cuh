// The same where phases hand memory to another block: what it acquires is the cluster's.
template <typename F> __device__ __forceinline__ void amk_wait_phase_cluster_or_fault(const F* faults, unsigned bar, unsigned parity) {
  unsigned over;
  do {
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
        : "=r"(over)
        : "r"(bar), "r"(parity)
        : "memory");
  } while (!over && *(const volatile unsigned long long*)&faults->count == 0ULL);
}
