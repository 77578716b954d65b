// Where rows go: the blocks of a chunk as a destination, and the copy plan from packed matrices to it.
#pragma once

#include "arrays.hpp"

namespace rowmill {

// The matrices of all blocks of a chunk. Places number the rows of the chunk; `unit` rows stand together in memory.
//
// A matrix is given as one array a block, with the axes (units, rows, columns); or (units, columns, rows) where it is
// column-major, for frameworks whose tensors have no strides.
class Destination {
   public:
    struct Matrix {
        std::vector<char*> units;  // where each unit begins
        std::size_t item = 0;      // bytes of a value
        std::size_t width = 0;     // columns
        std::size_t step = 0;      // bytes from a column to the next if column-major, else 0
        Kind kind = Kind::u8;
        std::size_t row_bytes() const { return step ? item : item * width; }
    };

    Destination(std::vector<std::vector<MutableArray>> arrays, const std::vector<bool>& column_major, std::size_t unit);

    const std::vector<Matrix>& matrices() const { return matrices_; }
    std::size_t unit() const { return unit_; }
    void check(const Vector<std::uint32_t>& places) const;

   private:
    std::vector<std::vector<MutableArray>> arrays_;  // what keeps the memory alive
    std::vector<Matrix> matrices_;
    std::size_t unit_;
    std::size_t rows_;
};

// The address of the row at a place. Multiplies by 1 / unit because dividing takes ten times as long; exact, because
// half a row is far more than the product is off by.
class RowAddress {
   public:
    RowAddress(const Destination& destination, const Destination::Matrix& matrix)
        : units_(matrix.units.data()),
          unit_(static_cast<std::uint32_t>(destination.unit())),
          reciprocal_(1.0 / static_cast<double>(destination.unit())),
          row_bytes_(matrix.row_bytes()) {}

    std::uint32_t unit_of(std::uint32_t place) const {
        return static_cast<std::uint32_t>((static_cast<double>(place) + 0.5) * reciprocal_);
    }
    std::uint32_t left_in_unit(std::uint32_t place) const { return unit_ - (place - unit_of(place) * unit_); }
    char* operator()(std::uint32_t place) const {
        const std::uint32_t number = unit_of(place);
        return units_[number] + static_cast<std::size_t>(place - number * unit_) * row_bytes_;
    }

   private:
    char* const* units_;
    std::uint32_t unit_;
    double reciprocal_;
    std::size_t row_bytes_;
};

// One line of a copy plan: bytes `offset` to `offset + size` of the rows of a packed matrix become an output matrix.
struct Copy {
    std::size_t output, input, offset, size, widen;
};

using Plan = nb::ndarray<const std::int64_t, nb::shape<-1, 5>, nb::c_contig, nb::device::cpu>;

inline std::vector<Copy> checked_plan(const Plan& plan, const InputRows& packed, const Destination& destination) {
    std::vector<Copy> copies;
    for (std::size_t line = 0; line < plan.shape(0); ++line) {
        const std::int64_t* row = plan.data() + 5 * line;
        for (int field = 0; field < 5; ++field) require(row[field] >= 0, "a copy plan with a negative number");
        const Copy copy{static_cast<std::size_t>(row[0]), static_cast<std::size_t>(row[1]),
                        static_cast<std::size_t>(row[2]), static_cast<std::size_t>(row[3]),
                        static_cast<std::size_t>(row[4])};
        require(copy.output < destination.matrices().size() && copy.input < packed.matrices.size(),
                "a copy plan that names a matrix that is not there");
        const auto& output = destination.matrices()[copy.output];
        require(copy.offset + copy.size <= packed.matrices[copy.input].row_bytes, "a copy plan beyond the packed row");
        require((copy.widen == 1 || (copy.widen == 2 && copy.size % 4 == 0 && output.item == 8)) && output.step == 0 &&
                    copy.size * copy.widen == output.row_bytes(),
                "a copy plan that does not fill an output row");
        copies.push_back(copy);
    }
    return copies;
}

// Copy `count` packed rows, from row `first` on, to their places.
void copy_to_places(const InputRows& packed, std::size_t first, const std::vector<Copy>& plan,
                    const std::uint32_t* places, std::size_t count, const Destination& destination);

}  // namespace rowmill
