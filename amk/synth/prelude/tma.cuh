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
