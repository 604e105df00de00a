// gemm_f32_nn_32x32x8 for sm_80, printed by amk: change its descriptor, not this text.
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
gemm_f32_nn_32x32x8(const int M, const int N, const int K, const long long lda, const float* __restrict__ A, const long long ldb, const float* __restrict__ B, const long long ldc, float* __restrict__ C, const float alpha) {
  const int t = threadIdx.x, bx = blockIdx.x, by = blockIdx.y, bz = blockIdx.z;
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
  const int m0 = by * 32;
  const int n0 = bx * 32;
  const int wm = warp % 2 * 16;
  const int wn = warp / 2 * 32;
  #pragma unroll
  for (int i = 0; i < 4; ++i) {
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
      acc[i][j] = 0.0f;
    }
  }
  const int steps = amk_cdiv<int>(K, 8);
  const int each = amk_cdiv<int>(steps, 2);
  const int first = amk_min<int>(bz * each, steps);
  const int mine = amk_min<int>(each, steps - first);
  const float* const from = &A[(long long)(m0 + t / 8) * lda + t % 8];
  const float* const from1 = &A[(long long)(m0 + (t / 8 + 8)) * lda + t % 8];
  const float* const from2 = &A[(long long)(m0 + (t / 8 + 16)) * lda + t % 8];
  const float* const from3 = &A[(long long)(m0 + (t / 8 + 24)) * lda + t % 8];
  const float* const from4 = &B[(long long)(t / 32) * ldb + (n0 + t % 32)];
  const float* const from5 = &B[(long long)(t / 32 + 2) * ldb + (n0 + t % 32)];
  const float* const from6 = &B[(long long)(t / 32 + 4) * ldb + (n0 + t % 32)];
  const float* const from7 = &B[(long long)(t / 32 + 6) * ldb + (n0 + t % 32)];
  amk_cp_async<4>(&a[t / 8 * 8 + t % 8], &from[first * 8], m0 + t / 8 < M && first * 8 + t % 8 < K);
  amk_cp_async<4>(&a[(t / 8 + 8) * 8 + t % 8], &from1[first * 8], m0 + (t / 8 + 8) < M && first * 8 + t % 8 < K);
  amk_cp_async<4>(&a[(t / 8 + 16) * 8 + t % 8], &from2[first * 8], m0 + (t / 8 + 16) < M && first * 8 + t % 8 < K);
  amk_cp_async<4>(&a[(t / 8 + 24) * 8 + t % 8], &from3[first * 8], m0 + (t / 8 + 24) < M && first * 8 + t % 8 < K);
  amk_cp_async<4>(&b[t / 32 * 32 + t % 32], &from4[(long long)(first * 8) * ldb], n0 + t % 32 < N && first * 8 + t / 32 < K);
  amk_cp_async<4>(&b[(t / 32 + 2) * 32 + t % 32], &from5[(long long)(first * 8) * ldb], n0 + t % 32 < N && first * 8 + (t / 32 + 2) < K);
  amk_cp_async<4>(&b[(t / 32 + 4) * 32 + t % 32], &from6[(long long)(first * 8) * ldb], n0 + t % 32 < N && first * 8 + (t / 32 + 4) < K);
  amk_cp_async<4>(&b[(t / 32 + 6) * 32 + t % 32], &from7[(long long)(first * 8) * ldb], n0 + t % 32 < N && first * 8 + (t / 32 + 6) < K);
  amk_commit_group();
  int slot = 0;
  int fill = 1;
  #pragma unroll 1
  for (int step = 0; step < mine; ++step) {
    amk_wait_group<0>();
    __syncthreads();
    if (step + 1 < mine) {
      amk_cp_async<4>(&a[fill * 256 + t / 8 * 8 + t % 8], &from[(first + (step + 1)) * 8], m0 + t / 8 < M && (first + (step + 1)) * 8 + t % 8 < K);
      amk_cp_async<4>(&a[fill * 256 + (t / 8 + 8) * 8 + t % 8], &from1[(first + (step + 1)) * 8], m0 + (t / 8 + 8) < M && (first + (step + 1)) * 8 + t % 8 < K);
      amk_cp_async<4>(&a[fill * 256 + (t / 8 + 16) * 8 + t % 8], &from2[(first + (step + 1)) * 8], m0 + (t / 8 + 16) < M && (first + (step + 1)) * 8 + t % 8 < K);
      amk_cp_async<4>(&a[fill * 256 + (t / 8 + 24) * 8 + t % 8], &from3[(first + (step + 1)) * 8], m0 + (t / 8 + 24) < M && (first + (step + 1)) * 8 + t % 8 < K);
      amk_cp_async<4>(&b[fill * 256 + t / 32 * 32 + t % 32], &from4[(long long)((first + (step + 1)) * 8) * ldb], n0 + t % 32 < N && (first + (step + 1)) * 8 + t / 32 < K);
      amk_cp_async<4>(&b[fill * 256 + (t / 32 + 2) * 32 + t % 32], &from5[(long long)((first + (step + 1)) * 8) * ldb], n0 + t % 32 < N && (first + (step + 1)) * 8 + (t / 32 + 2) < K);
      amk_cp_async<4>(&b[fill * 256 + (t / 32 + 4) * 32 + t % 32], &from6[(long long)((first + (step + 1)) * 8) * ldb], n0 + t % 32 < N && (first + (step + 1)) * 8 + (t / 32 + 4) < K);
      amk_cp_async<4>(&b[fill * 256 + (t / 32 + 6) * 32 + t % 32], &from7[(long long)((first + (step + 1)) * 8) * ldb], n0 + t % 32 < N && (first + (step + 1)) * 8 + (t / 32 + 6) < K);
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
  if (m0 + (wm + lm) < M && n0 + (wn + ln * 4) < N) {
    atomicAdd(&C[(long long)(m0 + (wm + lm)) * ldc + (n0 + (wn + ln * 4))], alpha * acc[0][0]);
  }
  if (m0 + (wm + lm) < M && n0 + (wn + (ln * 4 + 1)) < N) {
    atomicAdd(&C[(long long)(m0 + (wm + lm)) * ldc + (n0 + (wn + (ln * 4 + 1)))], alpha * acc[0][1]);
  }
  if (m0 + (wm + lm) < M && n0 + (wn + (ln * 4 + 2)) < N) {
    atomicAdd(&C[(long long)(m0 + (wm + lm)) * ldc + (n0 + (wn + (ln * 4 + 2)))], alpha * acc[0][2]);
  }
  if (m0 + (wm + lm) < M && n0 + (wn + (ln * 4 + 3)) < N) {
    atomicAdd(&C[(long long)(m0 + (wm + lm)) * ldc + (n0 + (wn + (ln * 4 + 3)))], alpha * acc[0][3]);
  }
  if (m0 + (wm + (4 + lm)) < M && n0 + (wn + ln * 4) < N) {
    atomicAdd(&C[(long long)(m0 + (wm + (4 + lm))) * ldc + (n0 + (wn + ln * 4))], alpha * acc[1][0]);
  }
  if (m0 + (wm + (4 + lm)) < M && n0 + (wn + (ln * 4 + 1)) < N) {
    atomicAdd(&C[(long long)(m0 + (wm + (4 + lm))) * ldc + (n0 + (wn + (ln * 4 + 1)))], alpha * acc[1][1]);
  }
  if (m0 + (wm + (4 + lm)) < M && n0 + (wn + (ln * 4 + 2)) < N) {
    atomicAdd(&C[(long long)(m0 + (wm + (4 + lm))) * ldc + (n0 + (wn + (ln * 4 + 2)))], alpha * acc[1][2]);
  }
  if (m0 + (wm + (4 + lm)) < M && n0 + (wn + (ln * 4 + 3)) < N) {
    atomicAdd(&C[(long long)(m0 + (wm + (4 + lm))) * ldc + (n0 + (wn + (ln * 4 + 3)))], alpha * acc[1][3]);
  }
  if (m0 + (wm + (8 + lm)) < M && n0 + (wn + ln * 4) < N) {
    atomicAdd(&C[(long long)(m0 + (wm + (8 + lm))) * ldc + (n0 + (wn + ln * 4))], alpha * acc[2][0]);
  }
  if (m0 + (wm + (8 + lm)) < M && n0 + (wn + (ln * 4 + 1)) < N) {
    atomicAdd(&C[(long long)(m0 + (wm + (8 + lm))) * ldc + (n0 + (wn + (ln * 4 + 1)))], alpha * acc[2][1]);
  }
  if (m0 + (wm + (8 + lm)) < M && n0 + (wn + (ln * 4 + 2)) < N) {
    atomicAdd(&C[(long long)(m0 + (wm + (8 + lm))) * ldc + (n0 + (wn + (ln * 4 + 2)))], alpha * acc[2][2]);
  }
  if (m0 + (wm + (8 + lm)) < M && n0 + (wn + (ln * 4 + 3)) < N) {
    atomicAdd(&C[(long long)(m0 + (wm + (8 + lm))) * ldc + (n0 + (wn + (ln * 4 + 3)))], alpha * acc[2][3]);
  }
  if (m0 + (wm + (12 + lm)) < M && n0 + (wn + ln * 4) < N) {
    atomicAdd(&C[(long long)(m0 + (wm + (12 + lm))) * ldc + (n0 + (wn + ln * 4))], alpha * acc[3][0]);
  }
  if (m0 + (wm + (12 + lm)) < M && n0 + (wn + (ln * 4 + 1)) < N) {
    atomicAdd(&C[(long long)(m0 + (wm + (12 + lm))) * ldc + (n0 + (wn + (ln * 4 + 1)))], alpha * acc[3][1]);
  }
  if (m0 + (wm + (12 + lm)) < M && n0 + (wn + (ln * 4 + 2)) < N) {
    atomicAdd(&C[(long long)(m0 + (wm + (12 + lm))) * ldc + (n0 + (wn + (ln * 4 + 2)))], alpha * acc[3][2]);
  }
  if (m0 + (wm + (12 + lm)) < M && n0 + (wn + (ln * 4 + 3)) < N) {
    atomicAdd(&C[(long long)(m0 + (wm + (12 + lm))) * ldc + (n0 + (wn + (ln * 4 + 3)))], alpha * acc[3][3]);
  }
}
