// Loads and stores in the shared memory of a peer: `at` is the address there.
template <int N> struct amk_word;
template <> struct amk_word<8> {
  typedef unsigned long long type;
  static __device__ __forceinline__ type load(unsigned at) {
    unsigned long long r;
    asm volatile("ld.shared::cluster.b64 %0, [%1];" : "=l"(r) : "r"(at) : "memory");
    return (type)r;
  }
  static __device__ __forceinline__ void store(unsigned at, type v) {
    asm volatile("st.shared::cluster.b64 [%0], %1;" ::"r"(at), "l"((unsigned long long)v) : "memory");
  }
};
template <> struct amk_word<4> {
  typedef unsigned type;
  static __device__ __forceinline__ type load(unsigned at) {
    unsigned r;
    asm volatile("ld.shared::cluster.b32 %0, [%1];" : "=r"(r) : "r"(at) : "memory");
    return (type)r;
  }
  static __device__ __forceinline__ void store(unsigned at, type v) {
    asm volatile("st.shared::cluster.b32 [%0], %1;" ::"r"(at), "r"((unsigned)v) : "memory");
  }
};
template <> struct amk_word<2> {
  typedef unsigned short type;
  static __device__ __forceinline__ type load(unsigned at) {
    unsigned short r;
    asm volatile("ld.shared::cluster.b16 %0, [%1];" : "=h"(r) : "r"(at) : "memory");
    return (type)r;
  }
  static __device__ __forceinline__ void store(unsigned at, type v) {
    asm volatile("st.shared::cluster.b16 [%0], %1;" ::"r"(at), "h"((unsigned short)v) : "memory");
  }
};
template <> struct amk_word<1> {
  typedef unsigned char type;
  static __device__ __forceinline__ type load(unsigned at) {
    unsigned short r;
    asm volatile("ld.shared::cluster.u8 %0, [%1];" : "=h"(r) : "r"(at) : "memory");
    return (type)r;
  }
  static __device__ __forceinline__ void store(unsigned at, type v) {
    asm volatile("st.shared::cluster.b8 [%0], %1;" ::"r"(at), "h"((unsigned short)v) : "memory");
  }
};
template <typename T> union amk_bits {
  T value;
  typename amk_word<sizeof(T)>::type word;
};
template <typename T> __device__ __forceinline__ T amk_load_peer(unsigned at) {
  amk_bits<T> b;
  b.word = amk_word<sizeof(T)>::load(at);
  return b.value;
}
template <typename T> __device__ __forceinline__ void amk_store_peer(unsigned at, T v) {
  amk_bits<T> b;
  b.value = v;
  amk_word<sizeof(T)>::store(at, b.word);
}
