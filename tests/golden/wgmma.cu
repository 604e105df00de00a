// gemm for sm_90a, printed by amk: change its descriptor, not this text.
// The smaller and the larger of two values; for floats a NaN wins, as in NumPy.
template <typename T> __device__ __forceinline__ T amk_min(T a, T b) { return a < b || a != a ? a : b; }
template <typename T> __device__ __forceinline__ T amk_max(T a, T b) { return a > b || a != a ? a : b; }
#ifndef AMK_SHIM
template <> __device__ __forceinline__ float amk_min<float>(float a, float b) {
  float r;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}
template <> __device__ __forceinline__ float amk_max<float>(float a, float b) {
  float r;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}
#endif
// The quotient rounded up, for positive b; unlike (a + b - 1) / b it cannot overflow.
template <typename T> __device__ __forceinline__ T amk_cdiv(T a, T b) { return a / b + (a % b > 0); }
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
// Two floats rounded to nearest even in one register, the first in the lower half.
__device__ __forceinline__ unsigned amk_bf16x2(float low, float high) {
  unsigned r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
__device__ __forceinline__ unsigned amk_f16x2(float low, float high) {
  unsigned r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
// Addresses in shared memory as instructions take them; in a cluster, the rank of the block stands above bit 24.
__device__ __forceinline__ unsigned amk_shared(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ __forceinline__ unsigned amk_peer(unsigned at, unsigned rank) {
  unsigned r;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(at), "r"(rank));
  return r;
}
// TMA and bulk copies. Coordinates go innermost first; a tensor map is 128 bytes that the launch passes by value.
struct alignas(64) amk_map {
  unsigned long long v[16];
};
__device__ __forceinline__ void amk_prefetch_map(const amk_map* m) { asm volatile("prefetch.tensormap [%0];" ::"l"(m) : "memory"); }
__device__ __forceinline__ void amk_tma_load(unsigned dst, unsigned bar, const amk_map* m, int c0) {
  asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%2, {%3}], [%1];" ::"r"(dst), "r"(bar), "l"(m), "r"(c0) : "memory");
}
__device__ __forceinline__ void amk_tma_load_multicast(unsigned dst, unsigned bar, unsigned mask, const amk_map* m, int c0) {
  asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%3, {%4}], [%1], %2;" ::"r"(dst), "r"(bar), "h"((unsigned short)mask), "l"(m), "r"(c0) : "memory");
}
__device__ __forceinline__ void amk_tma_store(unsigned src, const amk_map* m, int c0) {
  asm volatile("cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%1, {%2}], [%0];" ::"r"(src), "l"(m), "r"(c0) : "memory");
}
__device__ __forceinline__ void amk_tma_reduce_add(unsigned src, const amk_map* m, int c0) {
  asm volatile("cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.tile.bulk_group [%1, {%2}], [%0];" ::"r"(src), "l"(m), "r"(c0) : "memory");
}
__device__ __forceinline__ void amk_tma_reduce_min(unsigned src, const amk_map* m, int c0) {
  asm volatile("cp.reduce.async.bulk.tensor.1d.global.shared::cta.min.tile.bulk_group [%1, {%2}], [%0];" ::"r"(src), "l"(m), "r"(c0) : "memory");
}
__device__ __forceinline__ void amk_tma_reduce_max(unsigned src, const amk_map* m, int c0) {
  asm volatile("cp.reduce.async.bulk.tensor.1d.global.shared::cta.max.tile.bulk_group [%1, {%2}], [%0];" ::"r"(src), "l"(m), "r"(c0) : "memory");
}
__device__ __forceinline__ void amk_tma_load(unsigned dst, unsigned bar, const amk_map* m, int c0, int c1) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%2, {%3, %4}], [%1];" ::"r"(dst), "r"(bar), "l"(m), "r"(c0), "r"(c1) : "memory");
}
__device__ __forceinline__ void amk_tma_load_multicast(unsigned dst, unsigned bar, unsigned mask, const amk_map* m, int c0, int c1) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%3, {%4, %5}], [%1], %2;" ::"r"(dst), "r"(bar), "h"((unsigned short)mask), "l"(m), "r"(c0), "r"(c1) : "memory");
}
__device__ __forceinline__ void amk_tma_store(unsigned src, const amk_map* m, int c0, int c1) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%1, {%2, %3}], [%0];" ::"r"(src), "l"(m), "r"(c0), "r"(c1) : "memory");
}
__device__ __forceinline__ void amk_tma_reduce_add(unsigned src, const amk_map* m, int c0, int c1) {
  asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%1, {%2, %3}], [%0];" ::"r"(src), "l"(m), "r"(c0), "r"(c1) : "memory");
}
__device__ __forceinline__ void amk_tma_reduce_min(unsigned src, const amk_map* m, int c0, int c1) {
  asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.min.tile.bulk_group [%1, {%2, %3}], [%0];" ::"r"(src), "l"(m), "r"(c0), "r"(c1) : "memory");
}
__device__ __forceinline__ void amk_tma_reduce_max(unsigned src, const amk_map* m, int c0, int c1) {
  asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.max.tile.bulk_group [%1, {%2, %3}], [%0];" ::"r"(src), "l"(m), "r"(c0), "r"(c1) : "memory");
}
__device__ __forceinline__ void amk_tma_load(unsigned dst, unsigned bar, const amk_map* m, int c0, int c1, int c2) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%2, {%3, %4, %5}], [%1];" ::"r"(dst), "r"(bar), "l"(m), "r"(c0), "r"(c1), "r"(c2) : "memory");
}
__device__ __forceinline__ void amk_tma_load_multicast(unsigned dst, unsigned bar, unsigned mask, const amk_map* m, int c0, int c1, int c2) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%3, {%4, %5, %6}], [%1], %2;" ::"r"(dst), "r"(bar), "h"((unsigned short)mask), "l"(m), "r"(c0), "r"(c1), "r"(c2) : "memory");
}
__device__ __forceinline__ void amk_tma_store(unsigned src, const amk_map* m, int c0, int c1, int c2) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%1, {%2, %3, %4}], [%0];" ::"r"(src), "l"(m), "r"(c0), "r"(c1), "r"(c2) : "memory");
}
__device__ __forceinline__ void amk_tma_reduce_add(unsigned src, const amk_map* m, int c0, int c1, int c2) {
  asm volatile("cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.tile.bulk_group [%1, {%2, %3, %4}], [%0];" ::"r"(src), "l"(m), "r"(c0), "r"(c1), "r"(c2) : "memory");
}
__device__ __forceinline__ void amk_tma_reduce_min(unsigned src, const amk_map* m, int c0, int c1, int c2) {
  asm volatile("cp.reduce.async.bulk.tensor.3d.global.shared::cta.min.tile.bulk_group [%1, {%2, %3, %4}], [%0];" ::"r"(src), "l"(m), "r"(c0), "r"(c1), "r"(c2) : "memory");
}
__device__ __forceinline__ void amk_tma_reduce_max(unsigned src, const amk_map* m, int c0, int c1, int c2) {
  asm volatile("cp.reduce.async.bulk.tensor.3d.global.shared::cta.max.tile.bulk_group [%1, {%2, %3, %4}], [%0];" ::"r"(src), "l"(m), "r"(c0), "r"(c1), "r"(c2) : "memory");
}
__device__ __forceinline__ void amk_tma_load(unsigned dst, unsigned bar, const amk_map* m, int c0, int c1, int c2, int c3) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%2, {%3, %4, %5, %6}], [%1];" ::"r"(dst), "r"(bar), "l"(m), "r"(c0), "r"(c1), "r"(c2), "r"(c3) : "memory");
}
__device__ __forceinline__ void amk_tma_load_multicast(unsigned dst, unsigned bar, unsigned mask, const amk_map* m, int c0, int c1, int c2, int c3) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%3, {%4, %5, %6, %7}], [%1], %2;" ::"r"(dst), "r"(bar), "h"((unsigned short)mask), "l"(m), "r"(c0), "r"(c1), "r"(c2), "r"(c3) : "memory");
}
__device__ __forceinline__ void amk_tma_store(unsigned src, const amk_map* m, int c0, int c1, int c2, int c3) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%1, {%2, %3, %4, %5}], [%0];" ::"r"(src), "l"(m), "r"(c0), "r"(c1), "r"(c2), "r"(c3) : "memory");
}
__device__ __forceinline__ void amk_tma_reduce_add(unsigned src, const amk_map* m, int c0, int c1, int c2, int c3) {
  asm volatile("cp.reduce.async.bulk.tensor.4d.global.shared::cta.add.tile.bulk_group [%1, {%2, %3, %4, %5}], [%0];" ::"r"(src), "l"(m), "r"(c0), "r"(c1), "r"(c2), "r"(c3) : "memory");
}
__device__ __forceinline__ void amk_tma_reduce_min(unsigned src, const amk_map* m, int c0, int c1, int c2, int c3) {
  asm volatile("cp.reduce.async.bulk.tensor.4d.global.shared::cta.min.tile.bulk_group [%1, {%2, %3, %4, %5}], [%0];" ::"r"(src), "l"(m), "r"(c0), "r"(c1), "r"(c2), "r"(c3) : "memory");
}
__device__ __forceinline__ void amk_tma_reduce_max(unsigned src, const amk_map* m, int c0, int c1, int c2, int c3) {
  asm volatile("cp.reduce.async.bulk.tensor.4d.global.shared::cta.max.tile.bulk_group [%1, {%2, %3, %4, %5}], [%0];" ::"r"(src), "l"(m), "r"(c0), "r"(c1), "r"(c2), "r"(c3) : "memory");
}
__device__ __forceinline__ void amk_tma_load(unsigned dst, unsigned bar, const amk_map* m, int c0, int c1, int c2, int c3, int c4) {
  asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%2, {%3, %4, %5, %6, %7}], [%1];" ::"r"(dst), "r"(bar), "l"(m), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4) : "memory");
}
__device__ __forceinline__ void amk_tma_load_multicast(unsigned dst, unsigned bar, unsigned mask, const amk_map* m, int c0, int c1, int c2, int c3, int c4) {
  asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%3, {%4, %5, %6, %7, %8}], [%1], %2;" ::"r"(dst), "r"(bar), "h"((unsigned short)mask), "l"(m), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4) : "memory");
}
__device__ __forceinline__ void amk_tma_store(unsigned src, const amk_map* m, int c0, int c1, int c2, int c3, int c4) {
  asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group [%1, {%2, %3, %4, %5, %6}], [%0];" ::"r"(src), "l"(m), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4) : "memory");
}
__device__ __forceinline__ void amk_tma_reduce_add(unsigned src, const amk_map* m, int c0, int c1, int c2, int c3, int c4) {
  asm volatile("cp.reduce.async.bulk.tensor.5d.global.shared::cta.add.tile.bulk_group [%1, {%2, %3, %4, %5, %6}], [%0];" ::"r"(src), "l"(m), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4) : "memory");
}
__device__ __forceinline__ void amk_tma_reduce_min(unsigned src, const amk_map* m, int c0, int c1, int c2, int c3, int c4) {
  asm volatile("cp.reduce.async.bulk.tensor.5d.global.shared::cta.min.tile.bulk_group [%1, {%2, %3, %4, %5, %6}], [%0];" ::"r"(src), "l"(m), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4) : "memory");
}
__device__ __forceinline__ void amk_tma_reduce_max(unsigned src, const amk_map* m, int c0, int c1, int c2, int c3, int c4) {
  asm volatile("cp.reduce.async.bulk.tensor.5d.global.shared::cta.max.tile.bulk_group [%1, {%2, %3, %4, %5, %6}], [%0];" ::"r"(src), "l"(m), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4) : "memory");
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
__device__ __forceinline__ void amk_wgmma_m64n64k16_bf16_k_mn(float* d, unsigned long long a, unsigned long long b, bool add) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, p, 1, 1, 0, 1;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
      : "l"(a), "l"(b), "r"((int)add));
}
extern "C" __global__ void __launch_bounds__(256, 1)
gemm(const int M, const int N, const int K, const int blocks, const unsigned short* __restrict__ A, const unsigned short* __restrict__ B, unsigned short* __restrict__ C, const __grid_constant__ amk_map from_a, const __grid_constant__ amk_map from_b, const __grid_constant__ amk_map to_c) {
  const int t = threadIdx.x, bx = blockIdx.x;
  extern __shared__ __align__(1024) unsigned char smem[];
  const unsigned shared_ = amk_shared(smem);
  const unsigned tiles_ = (shared_ & 0x3FFFF) >> 4;
  unsigned short* const a = (unsigned short*)(smem + 0);
  unsigned short* const b = (unsigned short*)(smem + 16384);
  unsigned short* const c = (unsigned short*)(smem + 32768);
  float acc[32];
  const int warp = __shfl_sync(0xffffffffu, t / 32, 0);
  const int lane = t % 32;
  if (t == 0) {
    amk_prefetch_map(&from_a);
    amk_prefetch_map(&from_b);
    amk_prefetch_map(&to_c);
    amk_mbarrier_init(shared_ + 49152, 1);
    amk_mbarrier_init(shared_ + 49168, 4);
    amk_mbarrier_init(shared_ + 49160, 1);
    amk_mbarrier_init(shared_ + 49176, 4);
    amk_fence_mbarrier_init();
  }
  __syncthreads();
  const int high_tiles = amk_cdiv<int>(M, 64);
  const int wide_tiles = amk_cdiv<int>(N, 64);
  const int steps = amk_cdiv<int>(K, 64);
  const int tiles = high_tiles * wide_tiles;
  const int first_tile = bx;
  const int stride = blocks;
  if (threadIdx.x < 128) {
    amk_fewer_registers<232>();
    const int wg = warp / 4;
    int slot = 0;
    int parity = 0;
    #pragma unroll 1
    for (int tile = first_tile; tile < tiles; tile += stride) {
      const int width = wide_tiles * 8;
      const int first = tile / width * 8;
      const int rest = tile % width;
      const int high = amk_min<int>(8, high_tiles - first);
      const int tile_row = first + rest % high;
      const int tile_col = rest / high;
      const int m0 = tile_row * 64;
      const int n0 = tile_col * 64;
      int slot1 = slot;
      int parity1 = parity;
      int held = slot;
      #pragma unroll 1
      for (int step = 0; step < steps; ++step) {
        amk_wait_phase(shared_ + slot1 * 8 + 49152, parity1);
        amk_fence_wgmma();
        amk_wgmma_m64n64k16_bf16_k_mn(&acc[0], amk_tile<1, 64, 1>(tiles_ + slot1 * 512 + wg * 64 * 8), amk_tile<512, 64, 1>(tiles_ + 1024 + slot1 * 512), step != 0);
        amk_wgmma_m64n64k16_bf16_k_mn(&acc[0], amk_tile<1, 64, 1>(tiles_ + slot1 * 512 + wg * 64 * 8 + 2), amk_tile<512, 64, 1>(tiles_ + 1024 + slot1 * 512 + 128), true);
        amk_wgmma_m64n64k16_bf16_k_mn(&acc[0], amk_tile<1, 64, 1>(tiles_ + slot1 * 512 + wg * 64 * 8 + 4), amk_tile<512, 64, 1>(tiles_ + 1024 + slot1 * 512 + 256), true);
        amk_wgmma_m64n64k16_bf16_k_mn(&acc[0], amk_tile<1, 64, 1>(tiles_ + slot1 * 512 + wg * 64 * 8 + 6), amk_tile<512, 64, 1>(tiles_ + 1024 + slot1 * 512 + 384), true);
        amk_commit_wgmma();
        if (step > 0) {
          amk_wait_wgmma<1>();
          if (lane < 1) {
            amk_arrive(shared_ + held * 8 + 49168);
          }
        }
        const int next0_ = (slot1 == 1) ? 0 : slot1 + 1;
        const int next1_ = (slot1 == 1) ? (parity1 ^ 1) : parity1;
        const int next2_ = slot1;
        slot1 = next0_;
        parity1 = next1_;
        held = next2_;
      }
      amk_wait_wgmma<0>();
      if (lane < 1) {
        amk_arrive(shared_ + held * 8 + 49168);
      }
      if (t % 32 == 0) {
        amk_wait_bulk_read<0>();
      }
      __syncwarp();
      asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" : : "r"(shared_ + ((t / 32 * 2048 + t % 32 % 16 * 64 + t % 32 / 16 * 8) ^ ((((t / 32 * 2048 + t % 32 % 16 * 64 + t % 32 / 16 * 8) >> 6) & 7) << 3)) * 2 + 32768), "r"(amk_bf16x2(acc[0], acc[1])), "r"(amk_bf16x2(acc[2], acc[3])), "r"(amk_bf16x2(acc[4], acc[5])), "r"(amk_bf16x2(acc[6], acc[7])) : "memory");
      asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" : : "r"(shared_ + ((t / 32 * 2048 + t % 32 % 16 * 64 + (16 + t % 32 / 16 * 8)) ^ ((((t / 32 * 2048 + t % 32 % 16 * 64 + (16 + t % 32 / 16 * 8)) >> 6) & 7) << 3)) * 2 + 32768), "r"(amk_bf16x2(acc[8], acc[9])), "r"(amk_bf16x2(acc[10], acc[11])), "r"(amk_bf16x2(acc[12], acc[13])), "r"(amk_bf16x2(acc[14], acc[15])) : "memory");
      asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" : : "r"(shared_ + ((t / 32 * 2048 + t % 32 % 16 * 64 + (32 + t % 32 / 16 * 8)) ^ ((((t / 32 * 2048 + t % 32 % 16 * 64 + (32 + t % 32 / 16 * 8)) >> 6) & 7) << 3)) * 2 + 32768), "r"(amk_bf16x2(acc[16], acc[17])), "r"(amk_bf16x2(acc[18], acc[19])), "r"(amk_bf16x2(acc[20], acc[21])), "r"(amk_bf16x2(acc[22], acc[23])) : "memory");
      asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" : : "r"(shared_ + ((t / 32 * 2048 + t % 32 % 16 * 64 + (48 + t % 32 / 16 * 8)) ^ ((((t / 32 * 2048 + t % 32 % 16 * 64 + (48 + t % 32 / 16 * 8)) >> 6) & 7) << 3)) * 2 + 32768), "r"(amk_bf16x2(acc[24], acc[25])), "r"(amk_bf16x2(acc[26], acc[27])), "r"(amk_bf16x2(acc[28], acc[29])), "r"(amk_bf16x2(acc[30], acc[31])) : "memory");
      amk_fence_async();
      __syncwarp();
      if (t % 32 == 0) {
        amk_tma_store(shared_ + ((t / 32 * 2048) ^ ((((t / 32 * 2048) >> 6) & 7) << 3)) * 2 + 32768, &to_c, n0, m0 + wg * 64 + t / 32 % 4 * 16);
        amk_commit_bulk();
      }
      const int next0_ = slot1;
      const int next1_ = parity1;
      slot = next0_;
      parity = next1_;
    }
    if (lane == 0) {
      amk_wait_bulk_read<0>();
    }
  }
  else {
    amk_fewer_registers<40>();
    if (t == 128) {
      int slot2 = 0;
      int parity2 = 1;
      #pragma unroll 1
      for (int tile1 = first_tile; tile1 < tiles; tile1 += stride) {
        const int width1 = wide_tiles * 8;
        const int first1 = tile1 / width1 * 8;
        const int rest1 = tile1 % width1;
        const int high1 = amk_min<int>(8, high_tiles - first1);
        const int tile_row1 = first1 + rest1 % high1;
        const int tile_col1 = rest1 / high1;
        const int m01 = tile_row1 * 64;
        const int n01 = tile_col1 * 64;
        int slot3 = slot2;
        int parity3 = parity2;
        #pragma unroll 1
        for (int step1 = 0; step1 < steps; ++step1) {
          amk_wait_phase(shared_ + slot3 * 8 + 49168, parity3);
          amk_arrive_expect(shared_ + slot3 * 8 + 49152, 16384);
          amk_tma_load(shared_ + ((slot3 * 4096) ^ ((((slot3 * 4096) >> 6) & 7) << 3)) * 2, shared_ + slot3 * 8 + 49152, &from_a, step1 * 64, m01);
          amk_tma_load(shared_ + ((slot3 * 4096) ^ ((((slot3 * 4096) >> 6) & 7) << 3)) * 2 + 16384, shared_ + slot3 * 8 + 49152, &from_b, n01, step1 * 64);
          const int next0_ = (slot3 == 1) ? 0 : slot3 + 1;
          const int next1_ = (slot3 == 1) ? (parity3 ^ 1) : parity3;
          slot3 = next0_;
          parity3 = next1_;
        }
        const int next0_ = slot3;
        const int next1_ = parity3;
        slot2 = next0_;
        parity2 = next1_;
      }
    }
  }
  __syncthreads();
}
