// bulk_copy for sm_90a, printed by amk: change its descriptor, not this text.
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
// Bulk copies of bytes, and the groups of bulk work.
__device__ __forceinline__ void amk_bulk_load(unsigned dst, const void* src, unsigned bytes, unsigned bar) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(dst), "l"(src), "r"(bytes), "r"(bar) : "memory");
}
__device__ __forceinline__ void amk_bulk_load_multicast(unsigned dst, const void* src, unsigned bytes, unsigned bar, unsigned mask) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;" ::"r"(dst), "l"(src), "r"(bytes), "r"(bar), "h"((unsigned short)mask) : "memory");
}
__device__ __forceinline__ void amk_bulk_store(void* dst, unsigned src, unsigned bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(dst), "r"(src), "r"(bytes) : "memory");
}
__device__ __forceinline__ void amk_bulk_copy_peer(unsigned dst, unsigned src, unsigned bytes, unsigned bar) {
  asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(dst), "r"(src), "r"(bytes), "r"(bar) : "memory");
}
__device__ __forceinline__ void amk_commit_bulk() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int N> __device__ __forceinline__ void amk_wait_bulk() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(N) : "memory");
}
template <int N> __device__ __forceinline__ void amk_wait_bulk_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}
// Checked builds: what fails is counted and left out, and the first to fail leaves its record (synth/fault_record.py).
struct amk_faults {
  unsigned long long count;
  long long index, limit;
  int kind, place, operand, dimension, thread, block[3];
};
__device__ __noinline__ bool amk_fault(amk_faults* f, int kind, int place, int operand, int dimension, long long index, long long limit) {
  if (atomicAdd(&f->count, 1ULL) == 0ULL) {
    f->index = index, f->limit = limit;
    f->kind = kind, f->place = place, f->operand = operand, f->dimension = dimension;
    f->thread = threadIdx.x, f->block[0] = blockIdx.x, f->block[1] = blockIdx.y, f->block[2] = blockIdx.z;
  }
  return false;
}
// Elements `index` to `index + width - 1` lie in a dimension (of a cluster: its blocks).
__device__ __forceinline__ bool amk_in(amk_faults* f, int place, int operand, int dimension, long long index, long long extent, int width) {
  const bool starts = index >= 0 && index < extent;
  return (starts && index <= extent - width) || amk_fault(f, 0, place, operand, dimension, starts ? extent : index, extent);
}
// So many bytes from `p` on are aligned and lie in the array that the launch was given, whose bytes are `low` to
// `high - 1` counted from `base`.
__device__ __forceinline__ bool amk_given(amk_faults* f, int place, int operand, const void* p, const void* base, long long low, long long high, int bytes, int align) {
  const unsigned long long address = (unsigned long long)p;
  const long long at = (long long)(address - (unsigned long long)base);
  if (address % align != 0) return amk_fault(f, 2, place, operand, -1, at, align);
  if (at < low) return amk_fault(f, 1, place, operand, -1, at, low);
  return at <= high - bytes || amk_fault(f, 1, place, operand, -1, at < high ? high : at, high);
}
// So many bytes from `at` on lie in a shared array of `size` bytes.
__device__ __forceinline__ bool amk_run(amk_faults* f, int place, int operand, long long at, int size, int bytes) {
  return (at >= 0 && at <= size - bytes) || amk_fault(f, 1, place, operand, -1, at < 0 || at >= size ? at : size, size);
}
__device__ __forceinline__ bool amk_aligned(amk_faults* f, int place, int operand, const void* p, int align) {
  return (unsigned long long)p % align == 0 || amk_fault(f, 2, place, operand, -1, 0, align);
}
// Neighbours along the last dimension are neighbours in memory.
__device__ __forceinline__ bool amk_dense(amk_faults* f, int place, int operand, long long stride, int bytes) {
  return stride == 1 || amk_fault(f, 2, place, operand, -1, stride, bytes);
}
__device__ __forceinline__ void amk_holds(amk_faults* f, int place, bool fact) {
  if (!fact) amk_fault(f, 3, place, -1, -1, 0, 0);
}
// A loop goes forward: one that does not has no turn.
__device__ __forceinline__ bool amk_forward(amk_faults* f, int place, long long step) {
  return step > 0 || amk_fault(f, 5, place, -1, -1, step, 0);
}
__device__ __forceinline__ void amk_size(amk_faults* f, int place, long long value, long long least, long long most, long long unit) {
  if (value < least || value > most || value % unit != 0) amk_fault(f, 4, place, -1, -1, value, 0);
}
// A wait for a phase that gives up once something has failed: an arrival that was left out never comes.
template <typename F> __device__ __forceinline__ void amk_wait_phase_or_fault(const F* faults, unsigned bar, unsigned parity) {
  unsigned over;
  do {
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
        : "=r"(over)
        : "r"(bar), "r"(parity)
        : "memory");
  } while (!over && *(const volatile unsigned long long*)&faults->count == 0ULL);
}
// mbarriers. An arrival on that of a peer has no cluster-wide release: it tells that slots were read, not what is in them.
__device__ __forceinline__ void amk_mbarrier_init(unsigned bar, unsigned count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory");
}
__device__ __forceinline__ void amk_fence_mbarrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ __forceinline__ void amk_arrive(unsigned bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}
__device__ __forceinline__ void amk_arrive_expect(unsigned bar, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}
__device__ __forceinline__ void amk_arrive_at_peer(unsigned bar) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(bar) : "memory");
}
__device__ __forceinline__ void amk_arrive_expect_at_peer(unsigned bar, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cluster.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}
__device__ __forceinline__ void amk_wait_phase(unsigned bar, unsigned parity) {
  unsigned over;
  do {
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
        : "=r"(over)
        : "r"(bar), "r"(parity)
        : "memory");
  } while (!over);
}
// Addresses in shared memory as instructions take them; in a cluster, the rank of the block stands above bit 24.
__device__ __forceinline__ unsigned amk_shared(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ __forceinline__ unsigned amk_peer(unsigned at, unsigned rank) {
  unsigned r;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(at), "r"(rank));
  return r;
}
extern "C" __global__ void __launch_bounds__(32, 1)
bulk_copy(const int n, const float* __restrict__ x, float* __restrict__ z, amk_faults* const faults_, const long long x_low_, const long long x_high_, const long long z_low_, const long long z_high_) {
  const int t = threadIdx.x;
  extern __shared__ __align__(1024) unsigned char smem[];
  const unsigned shared_ = amk_shared(smem);
  float r[1];
  float* const s = (float*)(smem + 0);
  amk_size(faults_, 0, n, 1LL, 1048576LL, 1LL);
  if (amk_in(faults_, 3, 0, 1, t, 32, 1)) {
    s[t] = -1.0f;
  }
  if (t == 0) {
    amk_mbarrier_init(shared_ + 256, 1);
    amk_fence_mbarrier_init();
  }
  __syncthreads();
  if (t == 0) {
    amk_fence_async();
    amk_arrive_expect(shared_ + 256, 128);
    if (amk_in(faults_, 11, 0, 0, n / 16, 2, 1) && amk_run(faults_, 11, 0, n / 16 * 32 * 4, 256, 128) && amk_aligned(faults_, 11, 0, &s[n / 16 * 32], 16) && amk_in(faults_, 11, 1, 0, 0, n, 1) && amk_given(faults_, 11, 1, &x[0], x, x_low_, x_high_, 128, 16)) {
      amk_bulk_load(shared_ + n / 16 * 32 * 4, &x[0], 128u, shared_ + 256);
    }
  }
  amk_wait_phase_or_fault(faults_, shared_ + 256, 0);
  if (amk_in(faults_, 13, 1, 1, t, 32, 1)) { r[0] = s[t]; } else { r[0] = 0.0f; }
  if (amk_in(faults_, 14, 0, 0, t, n, 1) && amk_given(faults_, 14, 0, &z[t], z, z_low_, z_high_, 4, 4)) {
    z[t] = r[0];
  }
}
