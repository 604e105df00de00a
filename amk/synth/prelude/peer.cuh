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
