// gemm for sm_80, printed by amk: change its descriptor, not this text.
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
// Asynchronous copies from global to shared memory; where `when` is false nothing is read and zeros are written.
#ifndef AMK_SHIM
template <int N> __device__ __forceinline__ void amk_cp_async(void* dst, const void* src, bool when) {
  const unsigned to = (unsigned)__cvta_generic_to_shared(dst);
  const int bytes = when ? N : 0;
  if constexpr (N == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(src), "r"(bytes) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(src), "n"(N), "r"(bytes) : "memory");
}
__device__ __forceinline__ void amk_commit_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> __device__ __forceinline__ void amk_wait_group() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}
#endif
// N elements that move in one instruction.
template <typename T, int N> struct alignas(sizeof(T) * N) amk_vec { T v[N]; };
template <int N, typename T> __device__ __forceinline__ amk_vec<T, N> amk_load(const T* p) {
  return *(const amk_vec<T, N>*)p;
}
template <typename T, typename... V> __device__ __forceinline__ void amk_store(T* p, V... v) {
  *(amk_vec<T, sizeof...(V)>*)p = amk_vec<T, sizeof...(V)>{{(T)v...}};
}
extern "C" __global__ void __launch_bounds__(64, 1)
gemm(const int m, const int n, const int depth, const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c) {
  const int t = threadIdx.x, bx = blockIdx.x, by = blockIdx.y;
  extern __shared__ __align__(1024) unsigned char smem[];
  float* const sa = (float*)(smem + 0);
  float* const sb = (float*)(smem + 2048);
  float acc[4][4];
  float fa[4];
  float fb[4];
  const int ty = t / 8;
  const int tx = t % 8;
  const int tiles = amk_cdiv<int>(depth, 8);
  #pragma unroll
  for (int i = 0; i < 4; ++i) {
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
      acc[i][j] = 0.0f;
    }
  }
  amk_cp_async<16>(&sa[t / 2 * 8 + t % 2 * 4], &a[(long long)(by * 32 + t / 2) * depth + t % 2 * 4], by * 32 + t / 2 < m && t % 2 * 4 < depth);
  amk_cp_async<16>(&sb[t / 8 * 32 + t % 8 * 4], &b[(long long)(t / 8) * n + (bx * 32 + t % 8 * 4)], t / 8 < depth && bx * 32 + t % 8 * 4 < n);
  amk_commit_group();
  #pragma unroll 1
  for (int p = 0; p < tiles; ++p) {
    amk_cp_async<16>(&sa[(p + 1) % 2 * 256 + t / 2 * 8 + t % 2 * 4], &a[(long long)(by * 32 + t / 2) * depth + ((p + 1) * 8 + t % 2 * 4)], by * 32 + t / 2 < m && (p + 1) * 8 + t % 2 * 4 < depth);
    amk_cp_async<16>(&sb[(p + 1) % 2 * 256 + t / 8 * 32 + t % 8 * 4], &b[(long long)((p + 1) * 8 + t / 8) * n + (bx * 32 + t % 8 * 4)], (p + 1) * 8 + t / 8 < depth && bx * 32 + t % 8 * 4 < n);
    amk_commit_group();
    amk_wait_group<1>();
    __syncthreads();
    float* const va = &sa[p % 2 * 256 + ty * 4 * 8];
    float* const vb = &sb[p % 2 * 256 + tx * 4];
    #pragma unroll
    for (int kk = 0; kk < 8; ++kk) {
      #pragma unroll
      for (int q = 0; q < 4; ++q) {
        fa[q] = va[q * 8 + kk];
      }
      { const auto v_ = amk_load<4>(&vb[kk * 32]); fb[0] = v_.v[0]; fb[1] = v_.v[1]; fb[2] = v_.v[2]; fb[3] = v_.v[3]; }
      #pragma unroll
      for (int u = 0; u < 4; ++u) {
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
          acc[u][v] = __fmaf_rn(fa[u], fb[v], acc[u][v]);
        }
      }
    }
    __syncthreads();
  }
  amk_wait_group<0>();
  const int row0 = by * 32 + ty * 4;
  const int col0 = bx * 32 + tx * 4;
  float* const vc = &c[(long long)row0 * n + col0];
  #pragma unroll
  for (int o = 0; o < 4; ++o) {
    if (row0 + o < m && col0 < n) {
      amk_store(&vc[(long long)o * n], acc[o][0], acc[o][1], acc[o][2], acc[o][3]);
    }
  }
}
