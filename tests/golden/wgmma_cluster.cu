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
__device__ __forceinline__ void amk_wgmma_m64n256k16_bf16_k_mn(float* d, unsigned long long a, unsigned long long b, bool add) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, %128, %129, p, 1, 1, 0, 1;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]), "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]), "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]), "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]), "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]), "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]), "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111]), "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]), "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])
      : "l"(a), "l"(b), "r"((int)add));
}
extern "C" __global__ void __launch_bounds__(384, 1) __cluster_dims__(2, 1, 1)
gemm(const int M, const int N, const int K, const int blocks, const unsigned short* __restrict__ A, const unsigned short* __restrict__ B, unsigned short* __restrict__ C, const __grid_constant__ amk_map from_a, const __grid_constant__ amk_map from_b, const __grid_constant__ amk_map to_c) {
  const int t = threadIdx.x, bx = blockIdx.x, rank = amk_rank();
  extern __shared__ __align__(1024) unsigned char smem[];
  const unsigned shared_ = amk_shared(smem);
  const unsigned tiles_ = (shared_ & 0x3FFFF) >> 4;
  unsigned short* const a = (unsigned short*)(smem + 0);
  unsigned short* const b = (unsigned short*)(smem + 65536);
  unsigned short* const c = (unsigned short*)(smem + 196608);
  float acc[128];
  const int warp = __shfl_sync(0xffffffffu, t / 32, 0);
  const int lane = t % 32;
  if (t == 0) {
    amk_prefetch_map(&from_a);
    amk_prefetch_map(&from_b);
    amk_prefetch_map(&to_c);
    amk_mbarrier_init(shared_ + 229376, 1);
    amk_mbarrier_init(shared_ + 229408, 16);
    amk_mbarrier_init(shared_ + 229384, 1);
    amk_mbarrier_init(shared_ + 229416, 16);
    amk_mbarrier_init(shared_ + 229392, 1);
    amk_mbarrier_init(shared_ + 229424, 16);
    amk_mbarrier_init(shared_ + 229400, 1);
    amk_mbarrier_init(shared_ + 229432, 16);
    amk_fence_mbarrier_init();
  }
  amk_cluster_arrive_relaxed(); amk_cluster_wait_relaxed();
  const int high_tiles = amk_cdiv<int>(M, 256);
  const int wide_tiles = amk_cdiv<int>(N, 256);
  const int steps = amk_cdiv<int>(K, 64);
  const int tiles = high_tiles * wide_tiles;
  const int first_tile = bx / 2;
  const int stride = blocks / 2;
  if (threadIdx.x < 256) {
    amk_more_registers<232>();
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
      const int m0 = (tile_row * 2 + rank) * 128;
      const int n0 = tile_col * 256;
      int slot1 = slot;
      int parity1 = parity;
      int held = slot;
      #pragma unroll 1
      for (int step = 0; step < steps; ++step) {
        amk_wait_phase(shared_ + slot1 * 8 + 229376, parity1);
        amk_fence_wgmma();
        amk_wgmma_m64n256k16_bf16_k_mn(&acc[0], amk_tile<1, 64, 1>(tiles_ + slot1 * 1024 + wg * 64 * 8), amk_tile<512, 64, 1>(tiles_ + 4096 + slot1 * 2048), step != 0);
        amk_wgmma_m64n256k16_bf16_k_mn(&acc[0], amk_tile<1, 64, 1>(tiles_ + slot1 * 1024 + wg * 64 * 8 + 2), amk_tile<512, 64, 1>(tiles_ + 4096 + slot1 * 2048 + 128), true);
        amk_wgmma_m64n256k16_bf16_k_mn(&acc[0], amk_tile<1, 64, 1>(tiles_ + slot1 * 1024 + wg * 64 * 8 + 4), amk_tile<512, 64, 1>(tiles_ + 4096 + slot1 * 2048 + 256), true);
        amk_wgmma_m64n256k16_bf16_k_mn(&acc[0], amk_tile<1, 64, 1>(tiles_ + slot1 * 1024 + wg * 64 * 8 + 6), amk_tile<512, 64, 1>(tiles_ + 4096 + slot1 * 2048 + 384), true);
        amk_commit_wgmma();
        if (step > 0) {
          amk_wait_wgmma<1>();
          if (lane < 2) {
            amk_arrive_at_peer(amk_peer(shared_ + held * 8 + 229408, lane));
          }
        }
        const int next0_ = (slot1 == 3) ? 0 : slot1 + 1;
        const int next1_ = (slot1 == 3) ? (parity1 ^ 1) : parity1;
        const int next2_ = slot1;
        slot1 = next0_;
        parity1 = next1_;
        held = next2_;
      }
      amk_wait_wgmma<0>();
      if (lane < 2) {
        amk_arrive_at_peer(amk_peer(shared_ + held * 8 + 229408, lane));
      }
      if (t % 32 == 0) {
        amk_wait_bulk_read<1>();
      }
      __syncwarp();
      asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" : : "r"(shared_ + ((t / 32 * 2048 + t % 32 % 16 * 64 + t % 32 / 16 * 8) ^ ((((t / 32 * 2048 + t % 32 % 16 * 64 + t % 32 / 16 * 8) >> 6) & 7) << 3)) * 2 + 196608), "r"(amk_bf16x2(acc[0], acc[1])), "r"(amk_bf16x2(acc[2], acc[3])), "r"(amk_bf16x2(acc[4], acc[5])), "r"(amk_bf16x2(acc[6], acc[7])) : "memory");
      asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" : : "r"(shared_ + ((t / 32 * 2048 + t % 32 % 16 * 64 + (16 + t % 32 / 16 * 8)) ^ ((((t / 32 * 2048 + t % 32 % 16 * 64 + (16 + t % 32 / 16 * 8)) >> 6) & 7) << 3)) * 2 + 196608), "r"(amk_bf16x2(acc[8], acc[9])), "r"(amk_bf16x2(acc[10], acc[11])), "r"(amk_bf16x2(acc[12], acc[13])), "r"(amk_bf16x2(acc[14], acc[15])) : "memory");
      asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" : : "r"(shared_ + ((t / 32 * 2048 + t % 32 % 16 * 64 + (32 + t % 32 / 16 * 8)) ^ ((((t / 32 * 2048 + t % 32 % 16 * 64 + (32 + t % 32 / 16 * 8)) >> 6) & 7) << 3)) * 2 + 196608), "r"(amk_bf16x2(acc[16], acc[17])), "r"(amk_bf16x2(acc[18], acc[19])), "r"(amk_bf16x2(acc[20], acc[21])), "r"(amk_bf16x2(acc[22], acc[23])) : "memory");
      asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" : : "r"(shared_ + ((t / 32 * 2048 + t % 32 % 16 * 64 + (48 + t % 32 / 16 * 8)) ^ ((((t / 32 * 2048 + t % 32 % 16 * 64 + (48 + t % 32 / 16 * 8)) >> 6) & 7) << 3)) * 2 + 196608), "r"(amk_bf16x2(acc[24], acc[25])), "r"(amk_bf16x2(acc[26], acc[27])), "r"(amk_bf16x2(acc[28], acc[29])), "r"(amk_bf16x2(acc[30], acc[31])) : "memory");
      amk_fence_async();
      __syncwarp();
      if (t % 32 == 0) {
        amk_tma_store(shared_ + ((t / 32 * 2048) ^ ((((t / 32 * 2048) >> 6) & 7) << 3)) * 2 + 196608, &to_c, n0, m0 + wg * 64 + t / 32 % 4 * 16);
        amk_commit_bulk();
      }
      if (t % 32 == 0) {
        amk_wait_bulk_read<1>();
      }
      __syncwarp();
      asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" : : "r"(shared_ + ((t / 32 * 2048 + 1024 + t % 32 % 16 * 64 + t % 32 / 16 * 8) ^ ((((t / 32 * 2048 + 1024 + t % 32 % 16 * 64 + t % 32 / 16 * 8) >> 6) & 7) << 3)) * 2 + 196608), "r"(amk_bf16x2(acc[32], acc[33])), "r"(amk_bf16x2(acc[34], acc[35])), "r"(amk_bf16x2(acc[36], acc[37])), "r"(amk_bf16x2(acc[38], acc[39])) : "memory");
      asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" : : "r"(shared_ + ((t / 32 * 2048 + 1024 + t % 32 % 16 * 64 + (16 + t % 32 / 16 * 8)) ^ ((((t / 32 * 2048 + 1024 + t % 32 % 16 * 64 + (16 + t % 32 / 16 * 8)) >> 6) & 7) << 3)) * 2 + 196608), "r"(amk_bf16x2(acc[40], acc[41])), "r"(amk_bf16x2(acc[42], acc[43])), "r"(amk_bf16x2(acc[44], acc[45])), "r"(amk_bf16x2(acc[46], acc[47])) : "memory");
      asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" : : "r"(shared_ + ((t / 32 * 2048 + 1024 + t % 32 % 16 * 64 + (32 + t % 32 / 16 * 8)) ^ ((((t / 32 * 2048 + 1024 + t % 32 % 16 * 64 + (32 + t % 32 / 16 * 8)) >> 6) & 7) << 3)) * 2 + 196608), "r"(amk_bf16x2(acc[48], acc[49])), "r"(amk_bf16x2(acc[50], acc[51])), "r"(amk_bf16x2(acc[52], acc[53])), "r"(amk_bf16x2(acc[54], acc[55])) : "memory");
      asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" : : "r"(shared_ + ((t / 32 * 2048 + 1024 + t % 32 % 16 * 64 + (48 + t % 32 / 16 * 8)) ^ ((((t / 32 * 2048 + 1024 + t % 32 % 16 * 64 + (48 + t % 32 / 16 * 8)) >> 6) & 7) << 3)) * 2 + 196608), "r"(amk_bf16x2(acc[56], acc[57])), "r"(amk_bf16x2(acc[58], acc[59])), "r"(amk_bf16x2(acc[60], acc[61])), "r"(amk_bf16x2(acc[62], acc[63])) : "memory");
      amk_fence_async();
      __syncwarp();
      if (t % 32 == 0) {
        amk_tma_store(shared_ + ((t / 32 * 2048 + 1024) ^ ((((t / 32 * 2048 + 1024) >> 6) & 7) << 3)) * 2 + 196608, &to_c, n0 + 64, m0 + wg * 64 + t / 32 % 4 * 16);
        amk_commit_bulk();
      }
      if (t % 32 == 0) {
        amk_wait_bulk_read<1>();
      }
      __syncwarp();
      asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" : : "r"(shared_ + ((t / 32 * 2048 + t % 32 % 16 * 64 + t % 32 / 16 * 8) ^ ((((t / 32 * 2048 + t % 32 % 16 * 64 + t % 32 / 16 * 8) >> 6) & 7) << 3)) * 2 + 196608), "r"(amk_bf16x2(acc[64], acc[65])), "r"(amk_bf16x2(acc[66], acc[67])), "r"(amk_bf16x2(acc[68], acc[69])), "r"(amk_bf16x2(acc[70], acc[71])) : "memory");
      asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" : : "r"(shared_ + ((t / 32 * 2048 + t % 32 % 16 * 64 + (16 + t % 32 / 16 * 8)) ^ ((((t / 32 * 2048 + t % 32 % 16 * 64 + (16 + t % 32 / 16 * 8)) >> 6) & 7) << 3)) * 2 + 196608), "r"(amk_bf16x2(acc[72], acc[73])), "r"(amk_bf16x2(acc[74], acc[75])), "r"(amk_bf16x2(acc[76], acc[77])), "r"(amk_bf16x2(acc[78], acc[79])) : "memory");
      asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" : : "r"(shared_ + ((t / 32 * 2048 + t % 32 % 16 * 64 + (32 + t % 32 / 16 * 8)) ^ ((((t / 32 * 2048 + t % 32 % 16 * 64 + (32 + t % 32 / 16 * 8)) >> 6) & 7) << 3)) * 2 + 196608), "r"(amk_bf16x2(acc[80], acc[81])), "r"(amk_bf16x2(acc[82], acc[83])), "r"(amk_bf16x2(acc[84], acc[85])), "r"(amk_bf16x2(acc[86], acc[87])) : "memory");
      asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" : : "r"(shared_ + ((t / 32 * 2048 + t % 32 % 16 * 64 + (48 + t % 32 / 16 * 8)) ^ ((((t / 32 * 2048 + t % 32 % 16 * 64 + (48 + t % 32 / 16 * 8)) >> 6) & 7) << 3)) * 2 + 196608), "r"(amk_bf16x2(acc[88], acc[89])), "r"(amk_bf16x2(acc[90], acc[91])), "r"(amk_bf16x2(acc[92], acc[93])), "r"(amk_bf16x2(acc[94], acc[95])) : "memory");
      amk_fence_async();
      __syncwarp();
      if (t % 32 == 0) {
        amk_tma_store(shared_ + ((t / 32 * 2048) ^ ((((t / 32 * 2048) >> 6) & 7) << 3)) * 2 + 196608, &to_c, n0 + 128, m0 + wg * 64 + t / 32 % 4 * 16);
        amk_commit_bulk();
      }
      if (t % 32 == 0) {
        amk_wait_bulk_read<1>();
      }
      __syncwarp();
      asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" : : "r"(shared_ + ((t / 32 * 2048 + 1024 + t % 32 % 16 * 64 + t % 32 / 16 * 8) ^ ((((t / 32 * 2048 + 1024 + t % 32 % 16 * 64 + t % 32 / 16 * 8) >> 6) & 7) << 3)) * 2 + 196608), "r"(amk_bf16x2(acc[96], acc[97])), "r"(amk_bf16x2(acc[98], acc[99])), "r"(amk_bf16x2(acc[100], acc[101])), "r"(amk_bf16x2(acc[102], acc[103])) : "memory");
      asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" : : "r"(shared_ + ((t / 32 * 2048 + 1024 + t % 32 % 16 * 64 + (16 + t % 32 / 16 * 8)) ^ ((((t / 32 * 2048 + 1024 + t % 32 % 16 * 64 + (16 + t % 32 / 16 * 8)) >> 6) & 7) << 3)) * 2 + 196608), "r"(amk_bf16x2(acc[104], acc[105])), "r"(amk_bf16x2(acc[106], acc[107])), "r"(amk_bf16x2(acc[108], acc[109])), "r"(amk_bf16x2(acc[110], acc[111])) : "memory");
      asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" : : "r"(shared_ + ((t / 32 * 2048 + 1024 + t % 32 % 16 * 64 + (32 + t % 32 / 16 * 8)) ^ ((((t / 32 * 2048 + 1024 + t % 32 % 16 * 64 + (32 + t % 32 / 16 * 8)) >> 6) & 7) << 3)) * 2 + 196608), "r"(amk_bf16x2(acc[112], acc[113])), "r"(amk_bf16x2(acc[114], acc[115])), "r"(amk_bf16x2(acc[116], acc[117])), "r"(amk_bf16x2(acc[118], acc[119])) : "memory");
      asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" : : "r"(shared_ + ((t / 32 * 2048 + 1024 + t % 32 % 16 * 64 + (48 + t % 32 / 16 * 8)) ^ ((((t / 32 * 2048 + 1024 + t % 32 % 16 * 64 + (48 + t % 32 / 16 * 8)) >> 6) & 7) << 3)) * 2 + 196608), "r"(amk_bf16x2(acc[120], acc[121])), "r"(amk_bf16x2(acc[122], acc[123])), "r"(amk_bf16x2(acc[124], acc[125])), "r"(amk_bf16x2(acc[126], acc[127])) : "memory");
      amk_fence_async();
      __syncwarp();
      if (t % 32 == 0) {
        amk_tma_store(shared_ + ((t / 32 * 2048 + 1024) ^ ((((t / 32 * 2048 + 1024) >> 6) & 7) << 3)) * 2 + 196608, &to_c, n0 + 192, m0 + wg * 64 + t / 32 % 4 * 16);
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
    if (t == 256) {
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
        const int m01 = (tile_row1 * 2 + rank) * 128;
        const int n01 = tile_col1 * 256;
        int slot3 = slot2;
        int parity3 = parity2;
        #pragma unroll 1
        for (int step1 = 0; step1 < steps; ++step1) {
          amk_wait_phase(shared_ + slot3 * 8 + 229408, parity3);
          amk_arrive_expect(shared_ + slot3 * 8 + 229376, 49152);
          amk_tma_load(shared_ + ((slot3 * 8192) ^ ((((slot3 * 8192) >> 6) & 7) << 3)) * 2, shared_ + slot3 * 8 + 229376, &from_a, step1 * 64, m01);
          amk_tma_load_multicast(shared_ + ((slot3 * 16384 + rank * 2 * 4096) ^ ((((slot3 * 16384 + rank * 2 * 4096) >> 6) & 7) << 3)) * 2 + 65536, shared_ + slot3 * 8 + 229376, 3u, &from_b, n01 + rank * 2 * 64, step1 * 64);
          amk_tma_load_multicast(shared_ + ((slot3 * 16384 + (rank * 2 + 1) * 4096) ^ ((((slot3 * 16384 + (rank * 2 + 1) * 4096) >> 6) & 7) << 3)) * 2 + 65536, shared_ + slot3 * 8 + 229376, 3u, &from_b, n01 + (rank * 2 + 1) * 64, step1 * 64);
          const int next0_ = (slot3 == 3) ? 0 : slot3 + 1;
          const int next1_ = (slot3 == 3) ? (parity3 ^ 1) : parity3;
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
  amk_cluster_arrive_relaxed(); amk_cluster_wait_relaxed();
}
