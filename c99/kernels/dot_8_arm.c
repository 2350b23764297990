#if defined(@^_HELIUM)
    for (; i < terms; i += 8) {
      const mve_pred16_t p = vctp16q((uint32_t)(terms - i));
      const int16x8_t v = @HELIUM;
      s0 = @HELIUM_ADD(s0, v, vldrbq_z_s16(w + i, p), p);
      s1 = @HELIUM_ADD(s1, v, vldrbq_z_s16(w1 + i, p), p);
      s2 = @HELIUM_ADD(s2, v, vldrbq_z_s16(w2 + i, p), p);
      s3 = @HELIUM_ADD(s3, v, vldrbq_z_s16(w3 + i, p), p);
    }
#elif defined(@^_DSP)
    for (; i + 4 <= terms; i += 4) {
      @DSP
      int32_t by = @_word(w + i);
      s0 = @DSP_ADD(odd, @_odd_bytes(by), @DSP_ADD(even, __sxtb16(by), s0));
      by = @_word(w1 + i);
      s1 = @DSP_ADD(odd, @_odd_bytes(by), @DSP_ADD(even, __sxtb16(by), s1));
      by = @_word(w2 + i);
      s2 = @DSP_ADD(odd, @_odd_bytes(by), @DSP_ADD(even, __sxtb16(by), s2));
      by = @_word(w3 + i);
      s3 = @DSP_ADD(odd, @_odd_bytes(by), @DSP_ADD(even, __sxtb16(by), s3));
    }
#endif
