// mma_gemm for sm_80, printed by amk: change its descriptor, not this text.
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
extern "C" __global__ void __launch_bounds__(128, 1)
mma_gemm(const int m, const int n, const int depth, const unsigned short* __restrict__ a, const unsigned short* __restrict__ b, float* __restrict__ c) {
  const int t = threadIdx.x, bx = blockIdx.x, by = blockIdx.y;
  extern __shared__ __align__(1024) unsigned char smem[];
  const unsigned shared_ = amk_shared(smem);
  unsigned short* const sa = (unsigned short*)(smem + 0);
  unsigned short* const sb = (unsigned short*)(smem + 8192);
  unsigned fa[4];
  unsigned fb[2];
  float acc[4][4];
  const int row = t / 32 * 16;
  const int lane = t % 32;
  #pragma unroll
  for (int i = 0; i < 4; ++i) {
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
      acc[i][j] = 0.0f;
    }
  }
  const int steps = amk_cdiv<int>(depth, 32);
  amk_cp_async<16>(&sa[(t / 4 * 32 + t % 4 * 8) ^ ((((t / 4 * 32 + t % 4 * 8) >> 6) & 3) << 3)], &a[(long long)(by * 64 + t / 4) * depth + t % 4 * 8], by * 64 + t / 4 < m && t % 4 * 8 < depth);
  amk_cp_async<16>(&sa[((32 + t / 4) * 32 + t % 4 * 8) ^ (((((32 + t / 4) * 32 + t % 4 * 8) >> 6) & 3) << 3)], &a[(long long)(by * 64 + (32 + t / 4)) * depth + t % 4 * 8], by * 64 + (32 + t / 4) < m && t % 4 * 8 < depth);
  amk_cp_async<16>(&sb[(t / 4 * 32 + t % 4 * 8) ^ ((((t / 4 * 32 + t % 4 * 8) >> 6) & 3) << 3)], &b[(long long)(t / 4) * n + (bx * 32 + t % 4 * 8)], t / 4 < depth && bx * 32 + t % 4 * 8 < n);
  amk_commit_group();
  #pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    amk_cp_async<16>(&sa[((step + 1) % 2 * 2048 + t / 4 * 32 + t % 4 * 8) ^ (((((step + 1) % 2 * 2048 + t / 4 * 32 + t % 4 * 8) >> 6) & 3) << 3)], &a[(long long)(by * 64 + t / 4) * depth + ((step + 1) * 32 + t % 4 * 8)], by * 64 + t / 4 < m && (step + 1) * 32 + t % 4 * 8 < depth);
    amk_cp_async<16>(&sa[((step + 1) % 2 * 2048 + (32 + t / 4) * 32 + t % 4 * 8) ^ (((((step + 1) % 2 * 2048 + (32 + t / 4) * 32 + t % 4 * 8) >> 6) & 3) << 3)], &a[(long long)(by * 64 + (32 + t / 4)) * depth + ((step + 1) * 32 + t % 4 * 8)], by * 64 + (32 + t / 4) < m && (step + 1) * 32 + t % 4 * 8 < depth);
    amk_cp_async<16>(&sb[((step + 1) % 2 * 1024 + t / 4 * 32 + t % 4 * 8) ^ (((((step + 1) % 2 * 1024 + t / 4 * 32 + t % 4 * 8) >> 6) & 3) << 3)], &b[(long long)((step + 1) * 32 + t / 4) * n + (bx * 32 + t % 4 * 8)], (step + 1) * 32 + t / 4 < depth && bx * 32 + t % 4 * 8 < n);
    amk_commit_group();
    amk_wait_group<1>();
    __syncthreads();
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(fa[0]), "=r"(fa[1]), "=r"(fa[2]), "=r"(fa[3]) : "r"(shared_ + ((step % 2 * 2048 + (row + lane % 16) * 32 + lane / 16 * 8) ^ ((((step % 2 * 2048 + (row + lane % 16) * 32 + lane / 16 * 8) >> 6) & 3) << 3)) * 2) : "memory");
    asm volatile("ldmatrix.sync.aligned.m8n8.trans.x2.shared.b16 {%0, %1}, [%2];" : "=r"(fb[0]), "=r"(fb[1]) : "r"(shared_ + ((step % 2 * 1024 + lane % 16 * 32) ^ ((((step % 2 * 1024 + lane % 16 * 32) >> 6) & 3) << 3)) * 2 + 8192) : "memory");
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" : "+f"(acc[0][0]), "+f"(acc[0][1]), "+f"(acc[0][2]), "+f"(acc[0][3]) : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]));
    asm volatile("ldmatrix.sync.aligned.m8n8.trans.x2.shared.b16 {%0, %1}, [%2];" : "=r"(fb[0]), "=r"(fb[1]) : "r"(shared_ + ((step % 2 * 1024 + lane % 16 * 32 + 8) ^ ((((step % 2 * 1024 + lane % 16 * 32 + 8) >> 6) & 3) << 3)) * 2 + 8192) : "memory");
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" : "+f"(acc[1][0]), "+f"(acc[1][1]), "+f"(acc[1][2]), "+f"(acc[1][3]) : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]));
    asm volatile("ldmatrix.sync.aligned.m8n8.trans.x2.shared.b16 {%0, %1}, [%2];" : "=r"(fb[0]), "=r"(fb[1]) : "r"(shared_ + ((step % 2 * 1024 + lane % 16 * 32 + 16) ^ ((((step % 2 * 1024 + lane % 16 * 32 + 16) >> 6) & 3) << 3)) * 2 + 8192) : "memory");
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" : "+f"(acc[2][0]), "+f"(acc[2][1]), "+f"(acc[2][2]), "+f"(acc[2][3]) : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]));
    asm volatile("ldmatrix.sync.aligned.m8n8.trans.x2.shared.b16 {%0, %1}, [%2];" : "=r"(fb[0]), "=r"(fb[1]) : "r"(shared_ + ((step % 2 * 1024 + lane % 16 * 32 + 24) ^ ((((step % 2 * 1024 + lane % 16 * 32 + 24) >> 6) & 3) << 3)) * 2 + 8192) : "memory");
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" : "+f"(acc[3][0]), "+f"(acc[3][1]), "+f"(acc[3][2]), "+f"(acc[3][3]) : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(fa[0]), "=r"(fa[1]), "=r"(fa[2]), "=r"(fa[3]) : "r"(shared_ + ((step % 2 * 2048 + (row + lane % 16) * 32 + (16 + lane / 16 * 8)) ^ ((((step % 2 * 2048 + (row + lane % 16) * 32 + (16 + lane / 16 * 8)) >> 6) & 3) << 3)) * 2) : "memory");
    asm volatile("ldmatrix.sync.aligned.m8n8.trans.x2.shared.b16 {%0, %1}, [%2];" : "=r"(fb[0]), "=r"(fb[1]) : "r"(shared_ + ((step % 2 * 1024 + (16 + lane % 16) * 32) ^ ((((step % 2 * 1024 + (16 + lane % 16) * 32) >> 6) & 3) << 3)) * 2 + 8192) : "memory");
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" : "+f"(acc[0][0]), "+f"(acc[0][1]), "+f"(acc[0][2]), "+f"(acc[0][3]) : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]));
    asm volatile("ldmatrix.sync.aligned.m8n8.trans.x2.shared.b16 {%0, %1}, [%2];" : "=r"(fb[0]), "=r"(fb[1]) : "r"(shared_ + ((step % 2 * 1024 + (16 + lane % 16) * 32 + 8) ^ ((((step % 2 * 1024 + (16 + lane % 16) * 32 + 8) >> 6) & 3) << 3)) * 2 + 8192) : "memory");
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" : "+f"(acc[1][0]), "+f"(acc[1][1]), "+f"(acc[1][2]), "+f"(acc[1][3]) : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]));
    asm volatile("ldmatrix.sync.aligned.m8n8.trans.x2.shared.b16 {%0, %1}, [%2];" : "=r"(fb[0]), "=r"(fb[1]) : "r"(shared_ + ((step % 2 * 1024 + (16 + lane % 16) * 32 + 16) ^ ((((step % 2 * 1024 + (16 + lane % 16) * 32 + 16) >> 6) & 3) << 3)) * 2 + 8192) : "memory");
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" : "+f"(acc[2][0]), "+f"(acc[2][1]), "+f"(acc[2][2]), "+f"(acc[2][3]) : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]));
    asm volatile("ldmatrix.sync.aligned.m8n8.trans.x2.shared.b16 {%0, %1}, [%2];" : "=r"(fb[0]), "=r"(fb[1]) : "r"(shared_ + ((step % 2 * 1024 + (16 + lane % 16) * 32 + 24) ^ ((((step % 2 * 1024 + (16 + lane % 16) * 32 + 24) >> 6) & 3) << 3)) * 2 + 8192) : "memory");
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" : "+f"(acc[3][0]), "+f"(acc[3][1]), "+f"(acc[3][2]), "+f"(acc[3][3]) : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]));
    __syncthreads();
  }
  amk_wait_group<0>();
  if (by * 64 + row + lane / 4 < m && bx * 32 + lane % 4 * 2 < n) {
    amk_store(&c[(long long)(by * 64 + row + lane / 4) * n + (bx * 32 + lane % 4 * 2)], acc[0][0], acc[0][1]);
  }
  if (by * 64 + row + lane / 4 + 8 < m && bx * 32 + lane % 4 * 2 < n) {
    amk_store(&c[(long long)(by * 64 + row + lane / 4 + 8) * n + (bx * 32 + lane % 4 * 2)], acc[0][2], acc[0][3]);
  }
  if (by * 64 + row + lane / 4 < m && bx * 32 + 8 + lane % 4 * 2 < n) {
    amk_store(&c[(long long)(by * 64 + row + lane / 4) * n + (bx * 32 + 8 + lane % 4 * 2)], acc[1][0], acc[1][1]);
  }
  if (by * 64 + row + lane / 4 + 8 < m && bx * 32 + 8 + lane % 4 * 2 < n) {
    amk_store(&c[(long long)(by * 64 + row + lane / 4 + 8) * n + (bx * 32 + 8 + lane % 4 * 2)], acc[1][2], acc[1][3]);
  }
  if (by * 64 + row + lane / 4 < m && bx * 32 + 16 + lane % 4 * 2 < n) {
    amk_store(&c[(long long)(by * 64 + row + lane / 4) * n + (bx * 32 + 16 + lane % 4 * 2)], acc[2][0], acc[2][1]);
  }
  if (by * 64 + row + lane / 4 + 8 < m && bx * 32 + 16 + lane % 4 * 2 < n) {
    amk_store(&c[(long long)(by * 64 + row + lane / 4 + 8) * n + (bx * 32 + 16 + lane % 4 * 2)], acc[2][2], acc[2][3]);
  }
  if (by * 64 + row + lane / 4 < m && bx * 32 + 24 + lane % 4 * 2 < n) {
    amk_store(&c[(long long)(by * 64 + row + lane / 4) * n + (bx * 32 + 24 + lane % 4 * 2)], acc[3][0], acc[3][1]);
  }
  if (by * 64 + row + lane / 4 + 8 < m && bx * 32 + 24 + lane % 4 * 2 < n) {
    amk_store(&c[(long long)(by * 64 + row + lane / 4 + 8) * n + (bx * 32 + 24 + lane % 4 * 2)], acc[3][2], acc[3][3]);
  }
}
