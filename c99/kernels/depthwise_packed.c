              int8_t by[16];
              @UNPACK(at, count, by);
              for (k = 0; k < count; ++k) sum[k] += (@ACC)(@V)(from[k] - zero_point) * by[k];
