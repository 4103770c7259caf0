// Device is what the kernels use of CUDA C: attributes and clang's builtins. NVIDIA's
// headers and libraries are not needed.
#define KERNEL extern "C" __attribute__((global)) void
#define SHARED static __attribute__((shared))
#define THREADS(n) __attribute__((launch_bounds(n)))
#define DEVICE static inline __attribute__((device, always_inline))
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned u32;
typedef unsigned long long u64;
typedef long long s64;

DEVICE u32 thread() { return __nvvm_read_ptx_sreg_tid_x(); }
DEVICE u32 thread_y() { return __nvvm_read_ptx_sreg_tid_y(); }
DEVICE u32 block() { return __nvvm_read_ptx_sreg_ctaid_x(); }
DEVICE u32 blocks() { return __nvvm_read_ptx_sreg_nctaid_x(); }
DEVICE u32 block_y() { return __nvvm_read_ptx_sreg_ctaid_y(); }
DEVICE u32 blocks_y() { return __nvvm_read_ptx_sreg_nctaid_y(); }
DEVICE u32 block_z() { return __nvvm_read_ptx_sreg_ctaid_z(); }
DEVICE u32 blocks_z() { return __nvvm_read_ptx_sreg_nctaid_z(); }
DEVICE void barrier() { __syncthreads(); }
DEVICE void together() { __nvvm_bar_warp_sync(~0u); } // the threads of a warp
DEVICE u32 bits(float f) { return __builtin_bit_cast(u32, f); }
DEVICE float from_bits(u32 b) { return __builtin_bit_cast(float, b); }
DEVICE float down(float v, u32 n) { return __nvvm_shfl_sync_down_f32(~0u, v, n, 31); }
DEVICE u32 down(u32 v, u32 n) { return __nvvm_shfl_sync_down_i32(~0u, v, n, 31); }
DEVICE u64 down(u64 v, u32 n) { return (u64)down((u32)(v >> 32), n) << 32 | down((u32)v, n); }
DEVICE s64 down(s64 v, u32 n) { return (s64)down((u64)v, n); }
DEVICE double down(double v, u32 n) { return __builtin_bit_cast(double, down(__builtin_bit_cast(u64, v), n)); }
DEVICE float up(float v, u32 n) { return __nvvm_shfl_sync_up_f32(~0u, v, n, 0); }
DEVICE u32 up(u32 v, u32 n) { return __nvvm_shfl_sync_up_i32(~0u, v, n, 0); }
DEVICE s64 up(s64 v, u32 n) { return (s64)((u64)up((u32)((u64)v >> 32), n) << 32 | up((u32)v, n)); }
DEVICE double up(double v, u32 n) { return __builtin_bit_cast(double, up(__builtin_bit_cast(s64, v), n)); }

// exponential returns e^x by operations that round as the manual says, so that it has the
// same bits on every device. Below -87.3 it is 0, above 88.7 infinity.
DEVICE float exponential(float x) {
	float n = __builtin_rintf(x * 1.44269504f);
	float r = __builtin_fmaf(n, -0.693145752f, x);
	r = __builtin_fmaf(n, -1.42860677e-6f, r);
	float p = 1.98412698e-4f;
	p = __builtin_fmaf(p, r, 1.38888889e-3f);
	p = __builtin_fmaf(p, r, 8.33333333e-3f);
	p = __builtin_fmaf(p, r, 4.16666667e-2f);
	p = __builtin_fmaf(p, r, 1.66666667e-1f);
	p = __builtin_fmaf(p, r, 0.5f);
	p = __builtin_fmaf(p, r, 1.0f);
	p = __builtin_fmaf(p, r, 1.0f);
	if (x < -87.3f) return 0;
	if (x > 88.7f) return __builtin_inff();
	return x != x ? x : p * from_bits((u32)((int)n + 127) << 23);
}

// logarithm returns log x of an x > 0 that is not subnormal, by the polynomial of Cephes.
DEVICE float logarithm(float x) {
	if (!(x < __builtin_inff())) return x;
	int e = (int)(bits(x) - 0x3f3504f3) >> 23; // the exponent of x / sqrt(1/2)
	float f = from_bits(bits(x) - ((u32)e << 23)) - 1.0f, n = (float)e, s = f * f;
	float p = 7.0376836292e-2f;
	p = __builtin_fmaf(p, f, -1.1514610310e-1f);
	p = __builtin_fmaf(p, f, 1.1676998740e-1f);
	p = __builtin_fmaf(p, f, -1.2420140846e-1f);
	p = __builtin_fmaf(p, f, 1.4249322787e-1f);
	p = __builtin_fmaf(p, f, -1.6668057665e-1f);
	p = __builtin_fmaf(p, f, 2.0000714765e-1f);
	p = __builtin_fmaf(p, f, -2.4999993993e-1f);
	p = __builtin_fmaf(p, f, 3.3333331174e-1f);
	float y = f * s * p;
	y = __builtin_fmaf(n, -2.12194440e-4f, y);
	y = __builtin_fmaf(s, -0.5f, y);
	return __builtin_fmaf(n, 0.693359375f, f + y);
}

// power is 2 to an n from -1022 to 1023.
DEVICE double power(int n) { return __builtin_bit_cast(double, (s64)(n + 1023) << 52); }

// exponential of f64 has the coefficients 1/k!, with all results down to 0.
DEVICE double exponential(double x) {
	x = x > 710 ? 710 : x < -746 ? -746 : x;
	double n = __builtin_rint(x * 0x1.71547652b82fep+0);
	double r = __builtin_fma(n, -0x1.abc9e3b39803fp-56, __builtin_fma(n, -0x1.62e42fefa39efp-1, x));
	double p = 1.0 / 87178291200;
	p = __builtin_fma(p, r, 1.0 / 6227020800);
	p = __builtin_fma(p, r, 1.0 / 479001600);
	p = __builtin_fma(p, r, 1.0 / 39916800);
	p = __builtin_fma(p, r, 1.0 / 3628800);
	p = __builtin_fma(p, r, 1.0 / 362880);
	p = __builtin_fma(p, r, 1.0 / 40320);
	p = __builtin_fma(p, r, 1.0 / 5040);
	p = __builtin_fma(p, r, 1.0 / 720);
	p = __builtin_fma(p, r, 1.0 / 120);
	p = __builtin_fma(p, r, 1.0 / 24);
	p = __builtin_fma(p, r, 1.0 / 6);
	p = __builtin_fma(p, r, 0.5);
	p = __builtin_fma(p, r, 1.0);
	p = __builtin_fma(p, r, 1.0);
	int e = (int)n, half = e >> 1;
	return x != x ? x : p * power(half) * power(e - half);
}

// logarithm of f64: x is m 2^e with m near 1, and log m is 2 artanh s of s = (m-1)/(m+1),
// a series with the coefficients 2/(2k+1).
DEVICE double logarithm(double x) {
	if (!(x < __builtin_inf())) return x;
	s64 b = __builtin_bit_cast(s64, x);
	s64 e = (b - 0x3fe6a09e667f3bcdll) >> 52; // the exponent of x / sqrt(1/2)
	double f = __builtin_bit_cast(double, b - (s64)((u64)e << 52)) - 1.0, n = (double)(int)e;
	double s = f / (2.0 + f), q = s * s, h = 0.5 * f * f;
	double p = 2.0 / 23;
	p = __builtin_fma(p, q, 2.0 / 21);
	p = __builtin_fma(p, q, 2.0 / 19);
	p = __builtin_fma(p, q, 2.0 / 17);
	p = __builtin_fma(p, q, 2.0 / 15);
	p = __builtin_fma(p, q, 2.0 / 13);
	p = __builtin_fma(p, q, 2.0 / 11);
	p = __builtin_fma(p, q, 2.0 / 9);
	p = __builtin_fma(p, q, 2.0 / 7);
	p = __builtin_fma(p, q, 2.0 / 5);
	p = __builtin_fma(p, q, 2.0 / 3);
	double low = __builtin_fma(n, 0x1.a39ef35793c76p-33, s * __builtin_fma(p, q, h));
	return __builtin_fma(n, 0x1.62e42feep-1, f - (h - low));
}

DEVICE float root(float x) { return __builtin_sqrtf(x); }
DEVICE double root(double x) { return __builtin_sqrt(x); }

// madd is x * y + sum, rounded once where it is rounded.
DEVICE float madd(float x, float y, float sum) { return __builtin_fmaf(x, y, sum); }
DEVICE double madd(double x, double y, double sum) { return __builtin_fma(x, y, sum); }
