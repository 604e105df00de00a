// gemm_f32_nn_32x32x8 for sm_80, printed by amk: change its descriptor, not this text.
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
gemm_f32_nn_32x32x8(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, const float alpha) {
  const int t = threadIdx.x, bx = blockIdx.x;
  extern __shared__ __align__(1024) unsigned char smem[];
  float* const a = (float*)(smem + 0);
  float ra[1][4][4];
  float* const b = (float*)(smem + 2048);
  float rb[1][4][4];
  float acc[4][4];
  const int warp = t / 32;
  const int lane = t % 32;
  const int lm = lane % 2 + lane / 16 * 2;
  const int ln = lane / 2 % 8;
  const int within = bx % 4;
  const int m0 = (bx / 4 * 2 + within % 2) * 32;
  const int n0 = within / 2 * 32;
  const int wm = warp % 2 * 16;
  const int wn = warp / 2 * 32;
  #pragma unroll
  for (int i = 0; i < 4; ++i) {
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
      acc[i][j] = 0.0f;
    }
  }
  const int steps = 3;
  const float* const from = &A[(long long)(m0 + t / 2) * 20LL + t % 2 * 4];
  const float* const from1 = &B[(long long)(t / 8) * 36LL + (n0 + t % 8 * 4)];
  amk_cp_async<16>(&a[t / 2 * 8 + t % 2 * 4], &from[0], m0 + t / 2 < 61 && t % 2 * 4 < 20);
  amk_cp_async<16>(&b[t / 8 * 32 + t % 8 * 4], &from1[0], n0 + t % 8 * 4 < 36 && t / 8 < 20);
  amk_commit_group();
  int slot = 0;
  int fill = 1;
  #pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    amk_wait_group<0>();
    __syncthreads();
    if (step + 1 < steps) {
      amk_cp_async<16>(&a[fill * 256 + t / 2 * 8 + t % 2 * 4], &from[(step + 1) * 8], m0 + t / 2 < 61 && (step + 1) * 8 + t % 2 * 4 < 20);
      amk_cp_async<16>(&b[fill * 256 + t / 8 * 32 + t % 8 * 4], &from1[(long long)((step + 1) * 8) * 36LL], n0 + t % 8 * 4 < 36 && (step + 1) * 8 + t / 8 < 20);
    }
    amk_commit_group();
    #pragma unroll 1
    for (int q = 0; q < 2; ++q) {
      { const auto v_ = amk_load<4>(&b[slot * 256 + q * 4 * 32 + (wn + ln * 4)]); rb[0][0][0] = v_.v[0]; rb[0][0][1] = v_.v[1]; rb[0][0][2] = v_.v[2]; rb[0][0][3] = v_.v[3]; }
      { const auto v_ = amk_load<4>(&b[slot * 256 + (q * 4 + 1) * 32 + (wn + ln * 4)]); rb[0][1][0] = v_.v[0]; rb[0][1][1] = v_.v[1]; rb[0][1][2] = v_.v[2]; rb[0][1][3] = v_.v[3]; }
      { const auto v_ = amk_load<4>(&b[slot * 256 + (q * 4 + 2) * 32 + (wn + ln * 4)]); rb[0][2][0] = v_.v[0]; rb[0][2][1] = v_.v[1]; rb[0][2][2] = v_.v[2]; rb[0][2][3] = v_.v[3]; }
      { const auto v_ = amk_load<4>(&b[slot * 256 + (q * 4 + 3) * 32 + (wn + ln * 4)]); rb[0][3][0] = v_.v[0]; rb[0][3][1] = v_.v[1]; rb[0][3][2] = v_.v[2]; rb[0][3][3] = v_.v[3]; }
      { const auto v_ = amk_load<4>(&a[slot * 256 + (wm + lm) * 8 + q * 4]); ra[0][0][0] = v_.v[0]; ra[0][0][1] = v_.v[1]; ra[0][0][2] = v_.v[2]; ra[0][0][3] = v_.v[3]; }
      { const auto v_ = amk_load<4>(&a[slot * 256 + (wm + (4 + lm)) * 8 + q * 4]); ra[0][1][0] = v_.v[0]; ra[0][1][1] = v_.v[1]; ra[0][1][2] = v_.v[2]; ra[0][1][3] = v_.v[3]; }
      { const auto v_ = amk_load<4>(&a[slot * 256 + (wm + (8 + lm)) * 8 + q * 4]); ra[0][2][0] = v_.v[0]; ra[0][2][1] = v_.v[1]; ra[0][2][2] = v_.v[2]; ra[0][2][3] = v_.v[3]; }
      { const auto v_ = amk_load<4>(&a[slot * 256 + (wm + (12 + lm)) * 8 + q * 4]); ra[0][3][0] = v_.v[0]; ra[0][3][1] = v_.v[1]; ra[0][3][2] = v_.v[2]; ra[0][3][3] = v_.v[3]; }
      #pragma unroll
      for (int i1 = 0; i1 < 4; ++i1) {
        #pragma unroll
        for (int j1 = 0; j1 < 4; ++j1) {
          acc[i1][(i1 % 2 == 0) ? j1 : 3 - j1] = __fmaf_rn(ra[0][i1][0], rb[0][0][(i1 % 2 == 0) ? j1 : 3 - j1], acc[i1][(i1 % 2 == 0) ? j1 : 3 - j1]);
        }
      }
      #pragma unroll
      for (int i2 = 0; i2 < 4; ++i2) {
        #pragma unroll
        for (int j2 = 0; j2 < 4; ++j2) {
          acc[i2][(i2 % 2 == 0) ? j2 : 3 - j2] = __fmaf_rn(ra[0][i2][1], rb[0][1][(i2 % 2 == 0) ? j2 : 3 - j2], acc[i2][(i2 % 2 == 0) ? j2 : 3 - j2]);
        }
      }
      #pragma unroll
      for (int i3 = 0; i3 < 4; ++i3) {
        #pragma unroll
        for (int j3 = 0; j3 < 4; ++j3) {
          acc[i3][(i3 % 2 == 0) ? j3 : 3 - j3] = __fmaf_rn(ra[0][i3][2], rb[0][2][(i3 % 2 == 0) ? j3 : 3 - j3], acc[i3][(i3 % 2 == 0) ? j3 : 3 - j3]);
        }
      }
      #pragma unroll
      for (int i4 = 0; i4 < 4; ++i4) {
        #pragma unroll
        for (int j4 = 0; j4 < 4; ++j4) {
          acc[i4][(i4 % 2 == 0) ? j4 : 3 - j4] = __fmaf_rn(ra[0][i4][3], rb[0][3][(i4 % 2 == 0) ? j4 : 3 - j4], acc[i4][(i4 % 2 == 0) ? j4 : 3 - j4]);
        }
      }
    }
    const int next0_ = (slot == 1) ? 0 : slot + 1;
    const int next1_ = (fill == 1) ? 0 : fill + 1;
    slot = next0_;
    fill = next1_;
  }
  amk_wait_group<0>();
  if (m0 + (wm + lm) < 61 && n0 + (wn + ln * 4) < 36) {
    amk_store(&C[(long long)(m0 + (wm + lm)) * 36LL + (n0 + (wn + ln * 4))], alpha * acc[0][0], alpha * acc[0][1], alpha * acc[0][2], alpha * acc[0][3]);
  }
  if (m0 + (wm + (4 + lm)) < 61 && n0 + (wn + ln * 4) < 36) {
    amk_store(&C[(long long)(m0 + (wm + (4 + lm))) * 36LL + (n0 + (wn + ln * 4))], alpha * acc[1][0], alpha * acc[1][1], alpha * acc[1][2], alpha * acc[1][3]);
  }
  if (m0 + (wm + (8 + lm)) < 61 && n0 + (wn + ln * 4) < 36) {
    amk_store(&C[(long long)(m0 + (wm + (8 + lm))) * 36LL + (n0 + (wn + ln * 4))], alpha * acc[2][0], alpha * acc[2][1], alpha * acc[2][2], alpha * acc[2][3]);
  }
  if (m0 + (wm + (12 + lm)) < 61 && n0 + (wn + ln * 4) < 36) {
    amk_store(&C[(long long)(m0 + (wm + (12 + lm))) * 36LL + (n0 + (wn + ln * 4))], alpha * acc[3][0], alpha * acc[3][1], alpha * acc[3][2], alpha * acc[3][3]);
  }
}
