#if defined(@^_HELIUM)
              for (k = 0; k < count; k += 4) {
                const mve_pred16_t lanes = vctp32q((uint32_t)(count - k));
                const int32x4_t v = vsubq_n_s32(@HELIUM, zero_point);
                const int32x4_t products = vmulq_s32(v, vldrbq_z_s32(at + k, lanes));
                vst1q_s32(sum + k, vaddq_s32(vld1q_s32(sum + k), products));
              }
#else
@OTHERS#endif
