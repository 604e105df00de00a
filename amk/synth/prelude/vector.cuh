// N elements that move in one instruction.
template <typename T, int N> struct alignas(sizeof(T) * N) amk_vec { T v[N]; };
template <int N, typename T> __device__ __forceinline__ amk_vec<T, N> amk_load(const T* p) {
  return *(const amk_vec<T, N>*)p;
}
template <typename T, typename... V> __device__ __forceinline__ void amk_store(T* p, V... v) {
  *(amk_vec<T, sizeof...(V)>*)p = amk_vec<T, sizeof...(V)>{{(T)v...}};
}
