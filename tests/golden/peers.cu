// peers for sm_90a, printed by amk: change its descriptor, not this text.
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
// mbarriers whose phases hand memory to another block: the release and the acquire are the cluster's, not the block's.
__device__ __forceinline__ void amk_arrive_at_peer_cluster(unsigned bar) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(bar) : "memory");
}
__device__ __forceinline__ void amk_arrive_expect_at_peer_cluster(unsigned bar, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}
__device__ __forceinline__ void amk_wait_phase_cluster(unsigned bar, unsigned parity) {
  unsigned over;
  do {
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
        : "=r"(over)
        : "r"(bar), "r"(parity)
        : "memory");
  } while (!over);
}
// Loads and stores of N elements in the shared memory of a peer, in one instruction; `at` is the address there.
template <int BYTES> struct amk_words;
template <> struct amk_words<1> {
  unsigned short w;
  __device__ __forceinline__ void load(unsigned at) {
    asm volatile("ld.shared::cluster.u8 %0, [%1];" : "=h"(w) : "r"(at) : "memory");
  }
  __device__ __forceinline__ void store(unsigned at) {
    asm volatile("st.shared::cluster.u8 [%0], %1;" ::"r"(at), "h"(w) : "memory");
  }
};
template <> struct amk_words<2> {
  unsigned short w;
  __device__ __forceinline__ void load(unsigned at) {
    asm volatile("ld.shared::cluster.b16 %0, [%1];" : "=h"(w) : "r"(at) : "memory");
  }
  __device__ __forceinline__ void store(unsigned at) {
    asm volatile("st.shared::cluster.b16 [%0], %1;" ::"r"(at), "h"(w) : "memory");
  }
};
template <> struct amk_words<4> {
  unsigned w;
  __device__ __forceinline__ void load(unsigned at) {
    asm volatile("ld.shared::cluster.b32 %0, [%1];" : "=r"(w) : "r"(at) : "memory");
  }
  __device__ __forceinline__ void store(unsigned at) {
    asm volatile("st.shared::cluster.b32 [%0], %1;" ::"r"(at), "r"(w) : "memory");
  }
};
template <> struct amk_words<8> {
  unsigned long long w;
  __device__ __forceinline__ void load(unsigned at) {
    asm volatile("ld.shared::cluster.b64 %0, [%1];" : "=l"(w) : "r"(at) : "memory");
  }
  __device__ __forceinline__ void store(unsigned at) {
    asm volatile("st.shared::cluster.b64 [%0], %1;" ::"r"(at), "l"(w) : "memory");
  }
};
template <> struct amk_words<16> {
  unsigned long long w[2];
  __device__ __forceinline__ void load(unsigned at) {
    asm volatile("ld.shared::cluster.v2.b64 {%0, %1}, [%2];" : "=l"(w[0]), "=l"(w[1]) : "r"(at) : "memory");
  }
  __device__ __forceinline__ void store(unsigned at) {
    asm volatile("st.shared::cluster.v2.b64 [%0], {%1, %2};" ::"r"(at), "l"(w[0]), "l"(w[1]) : "memory");
  }
};
template <typename T, int N> union amk_shared_words {
  T v[N];
  amk_words<sizeof(T) * N> words;
};
template <typename T, int N> __device__ __forceinline__ amk_shared_words<T, N> amk_load_peer(unsigned at) {
  amk_shared_words<T, N> b;
  b.words.load(at);
  return b;
}
template <typename T, typename... V> __device__ __forceinline__ void amk_store_peer(unsigned at, V... v) {
  amk_shared_words<T, sizeof...(V)> b = {{(T)v...}};
  b.words.store(at);
}
// Addresses in shared memory as instructions take them; in a cluster, the rank of the block stands above bit 24.
__device__ __forceinline__ unsigned amk_shared(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ __forceinline__ unsigned amk_peer(unsigned at, unsigned rank) {
  unsigned r;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(at), "r"(rank));
  return r;
}
// N elements that move in one instruction.
template <typename T, int N> struct alignas(sizeof(T) * N) amk_vec { T v[N]; };
template <int N, typename T> __device__ __forceinline__ amk_vec<T, N> amk_load(const T* p) {
  return *(const amk_vec<T, N>*)p;
}
template <typename T, typename... V> __device__ __forceinline__ void amk_store(T* p, V... v) {
  *(amk_vec<T, sizeof...(V)>*)p = amk_vec<T, sizeof...(V)>{{(T)v...}};
}
extern "C" __global__ void __launch_bounds__(256, 1) __cluster_dims__(2, 1, 1)
peers(const float* __restrict__ x, float* __restrict__ z, float* __restrict__ sums) {
  const int t = threadIdx.x, bx = blockIdx.x, rank = amk_rank();
  extern __shared__ __align__(1024) unsigned char smem[];
  const unsigned shared_ = amk_shared(smem);
  float* const own = (float*)(smem + 0);
  float* const given = (float*)(smem + 2048);
  float v[4];
  if (t == 0) {
    amk_mbarrier_init(shared_ + 4096, 1);
    amk_mbarrier_init(shared_ + 4104, 128);
    amk_fence_mbarrier_init();
  }
  amk_cluster_arrive(); amk_cluster_wait();
  if (t == 0) {
    amk_arrive_expect(shared_ + 4096, 2048);
    amk_bulk_load(shared_, &x[(long long)bx * 512LL], 2048u, shared_ + 4096);
  }
  if (threadIdx.x < 128) {
    amk_wait_phase(shared_ + 4096, 0);
    { const auto v_ = amk_load<4>(&own[4 * t]); v[0] = v_.v[0]; v[1] = v_.v[1]; v[2] = v_.v[2]; v[3] = v_.v[3]; }
    amk_store_peer<float>(amk_peer(shared_ + 4 * t * 4 + 2048, 1 - rank), v[0] * 2.0f, v[1] * 2.0f, v[2] * 2.0f, v[3] * 2.0f);
    amk_arrive_at_peer_cluster(amk_peer(shared_ + 4104, 1 - rank));
    amk_bar_arrive<1, 256>();
  }
  else {
    const int at = 4 * (t - 128);
    amk_bar_sync<1, 256>();
    amk_wait_phase_cluster(shared_ + 4104, 0);
    { const auto v_ = amk_load<4>(&given[at]); v[0] = v_.v[0]; v[1] = v_.v[1]; v[2] = v_.v[2]; v[3] = v_.v[3]; }
    amk_store(&own[at], v[0], v[1], v[2], v[3]);
    amk_fence_async();
    amk_bar_sync<2, 128>();
    if (t == 128) {
      amk_bulk_store(&z[(long long)bx * 512LL], shared_, 2048u);
      asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(&sums[0]), "r"(shared_), "r"(2048u) : "memory");
      amk_commit_bulk();
      amk_wait_bulk_read<0>();
    }
  }
  amk_cluster_arrive_relaxed();
  amk_cluster_wait();
}
