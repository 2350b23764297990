/* Matrices of a product, and distances between their elements. */
typedef struct {
  int32_t matrices, rows, terms, columns;
  int32_t a_row, a_term, a_zero_point;
  int32_t b_matrix, b_term, b_column, b_zero_point;
} @_matmul;
