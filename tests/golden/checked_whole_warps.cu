// broken for sm_90a, printed by amk: change its descriptor, not this text.
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
// Addresses in shared memory as instructions take them; in a cluster, the rank of the block stands above bit 24.
__device__ __forceinline__ unsigned amk_shared(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ __forceinline__ unsigned amk_peer(unsigned at, unsigned rank) {
  unsigned r;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(at), "r"(rank));
  return r;
}
// wgmma: groups, and the descriptor of a tile in shared memory: start, strides and swizzle in units of 16 bytes.
__device__ __forceinline__ void amk_fence_wgmma() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void amk_commit_wgmma() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> __device__ __forceinline__ void amk_wait_wgmma() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}
template <int LEADING, int STRIDE, int SWIZZLE> __device__ __forceinline__ unsigned long long amk_tile(unsigned start) {
  return (unsigned long long)(STRIDE + ((unsigned)SWIZZLE << 30)) << 32 | (start + ((unsigned)LEADING << 16));
}
__device__ __forceinline__ void amk_wgmma_m64n64k16_bf16_k_k(float* d, unsigned long long a, unsigned long long b, bool add) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, p, 1, 1, 0, 0;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
      : "l"(a), "l"(b), "r"((int)add));
}
extern "C" __global__ void __launch_bounds__(32, 1)
broken(const int n, const float* __restrict__ x, float* __restrict__ z, amk_faults* const faults_, const long long x_low_, const long long x_high_, const long long z_low_, const long long z_high_) {
  const int t = threadIdx.x;
  extern __shared__ __align__(1024) unsigned char smem[];
  const unsigned shared_ = amk_shared(smem);
  const unsigned tiles_ = (shared_ & 0x3FFFF) >> 4;
  float r[1];
  float acc[2][4];
  unsigned a[2][4];
  unsigned b[4];
  unsigned short* const tiles = (unsigned short*)(smem + 0);
  float sums[2][32];
  amk_size(faults_, 0, n, 1LL, 1048576LL, 1LL);
  {
    float lost0_[4] = {};
    unsigned lost1_[4] = {};
    unsigned lost2_[2] = {};
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" : "+f"(*(amk_in(faults_, 3, 0, 0, t / 17, 2, 1) ? &acc[t / 17][0] : &lost0_[0])), "+f"(*(amk_in(faults_, 3, 0, 0, t / 17, 2, 1) ? &acc[t / 17][1] : &lost0_[1])), "+f"(*(amk_in(faults_, 3, 0, 0, t / 17, 2, 1) ? &acc[t / 17][2] : &lost0_[2])), "+f"(*(amk_in(faults_, 3, 0, 0, t / 17, 2, 1) ? &acc[t / 17][3] : &lost0_[3])) : "r"(*(amk_in(faults_, 3, 1, 0, n, 2, 1) ? &a[n][0] : &lost1_[0])), "r"(*(amk_in(faults_, 3, 1, 0, n, 2, 1) ? &a[n][1] : &lost1_[1])), "r"(*(amk_in(faults_, 3, 1, 0, n, 2, 1) ? &a[n][2] : &lost1_[2])), "r"(*(amk_in(faults_, 3, 1, 0, n, 2, 1) ? &a[n][3] : &lost1_[3])), "r"(*(amk_in(faults_, 3, 2, 0, t % 3, 4, 2) ? &b[t % 3] : &lost2_[0])), "r"(*(amk_in(faults_, 3, 2, 0, t % 3, 4, 2) ? &b[t % 3 + 1] : &lost2_[1])));
  }
  amk_fence_wgmma();
  {
    float lost0_[32] = {};
    amk_wgmma_m64n64k16_bf16_k_k(&*(amk_in(faults_, 5, 0, 0, n, 2, 1) ? &sums[n][0] : &lost0_[0]), (amk_in(faults_, 5, 1, 0, n, 2, 1) ? amk_tile<1, 64, 1>(tiles_ + n * 512) : amk_tile<1, 64, 1>(tiles_)), amk_tile<1, 64, 1>(tiles_ + 512), true);
  }
  amk_commit_wgmma();
  amk_wait_wgmma<0>();
  if (amk_in(faults_, 8, 0, 0, t, n, 1) && amk_given(faults_, 8, 0, &z[t], z, z_low_, z_high_, 4, 4)) {
    z[t] = acc[0][0];
  }
}
