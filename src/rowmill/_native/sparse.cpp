// Inner products of rows of two sparse matrices in CSR form, whose columns are sorted.
#include "native.hpp"

namespace rowmill {

namespace {

void check(const SparseMatrix& matrix) {
    require(matrix.starts.shape(0) > 0 && matrix.columns.shape(0) == matrix.values.shape(0), "a sparse matrix without rows");
    std::int64_t before = 0;
    for (std::size_t row = 0; row < matrix.starts.shape(0); ++row) {
        require(matrix.starts.data()[row] >= before, "row starts that descend");
        before = matrix.starts.data()[row];
    }
    require(static_cast<std::size_t>(before) <= matrix.values.shape(0), "row starts beyond the values");
}

}  // namespace

void dot_rows(const Vector<std::int64_t>& left, const Vector<std::int64_t>& right, const SparseMatrix& a,
              const SparseMatrix& b, const MutableVector<double>& products) {
    require(left.shape(0) == right.shape(0) && left.shape(0) == products.shape(0), "rows that come in no pairs");
    nb::gil_scoped_release unlocked;
    check(a), check(b);
    const auto a_rows = static_cast<std::int64_t>(a.starts.shape(0)) - 1;
    const auto b_rows = static_cast<std::int64_t>(b.starts.shape(0)) - 1;
    for (std::size_t index = 0; index < left.shape(0); ++index) {
        const std::int64_t row = left.data()[index], other = right.data()[index];
        double total = 0.0;
        if (0 <= row && row < a_rows && 0 <= other && other < b_rows) {
            std::int64_t i = a.starts.data()[row], j = b.starts.data()[other];
            const std::int64_t stop = a.starts.data()[row + 1], end = b.starts.data()[other + 1];
            while (i < stop && j < end) {
                const std::int64_t at = a.columns.data()[i], beside = b.columns.data()[j];
                if (at == beside) total += a.values.data()[i] * b.values.data()[j];
                i += at <= beside;
                j += beside <= at;
            }
        }
        products.data()[index] = total;
    }
}

}  // namespace rowmill
