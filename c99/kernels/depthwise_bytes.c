              if (count == 16) {
                for (k = 0; k < 16; ++k) sum[k] += (@ACC)(@V)(from[k] - zero_point) * at[k];
              } else {
                for (k = 0; k < count; ++k) sum[k] += (@ACC)(@V)(from[k] - zero_point) * at[k];
              }
