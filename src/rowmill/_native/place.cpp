// Copies packed rows to their places in the blocks of a chunk.
#include "cache.hpp"
#include "native.hpp"
#include "placement.hpp"

#include <algorithm>

namespace rowmill {

namespace {

constexpr std::size_t kTileRows = 2048;       // copied to one matrix after another, while they are in the cache
constexpr std::size_t kPrefetchRows = 16;     // rows before a row is overwritten
constexpr std::size_t kPrefetchBytes = 1024;  // of a row; the processor foresees the rest of a longer one

// Rows of one, two, four, eight, 16 or 32 bytes: several share a cache line, and none is prefetched.
template <std::size_t Size>
void copy_fixed(const char* row, std::size_t step, const std::uint32_t* places, std::size_t count, RowAddress address) {
    for (std::size_t i = 0; i < count; ++i, row += step) std::memcpy(address(places[i]), row, Size);
}

template <class Row>
void copy_rows_of(const char* row, std::size_t step, Row copy_row, std::size_t room, const std::uint32_t* places,
                  std::size_t count, std::size_t known, RowAddress address) {
    const std::size_t prefetched = std::min(room, kPrefetchBytes);
    for (std::size_t i = 0; i < count; ++i, row += step) {
        if (i + kPrefetchRows < known) {
            char* ahead = address(places[i + kPrefetchRows]);
            for (std::size_t at = 0; at < prefetched; at += kCacheLine) prefetch_write(ahead + at);
            prefetch_write(ahead + prefetched - 1);
        }
        copy_row(address(places[i]), row);
    }
}

}  // namespace

Destination::Destination(std::vector<std::vector<MutableArray>> arrays, const std::vector<bool>& column_major,
                         std::size_t unit)
    : arrays_(std::move(arrays)), unit_(unit), rows_(0) {
    require(unit > 0 && unit < (std::size_t{1} << 32), "a destination without rows");
    require(arrays_.size() == column_major.size(), "a destination needs one order for each matrix");
    for (std::size_t number = 0; number < arrays_.size(); ++number) {
        Matrix matrix;
        for (const MutableArray& array : arrays_[number]) {
            require(array.ndim() == 3 && contiguous_from(array, 2), "a block that is not 3-D with contiguous rows");
            const Kind kind = kind_of(array.dtype());
            const std::size_t item = item_bytes(kind);
            const std::size_t rows = array.shape(column_major[number] ? 2 : 1);
            const std::size_t width = array.shape(column_major[number] ? 1 : 2);
            const std::size_t step = column_major[number] ? static_cast<std::size_t>(array.stride(1)) * item : 0;
            require(rows >= unit, "a block with fewer rows than a unit");
            require(column_major[number] || contiguous_from(array, 1), "a row-major block that is not contiguous");
            require(matrix.units.empty() || (kind == matrix.kind && width == matrix.width && step == matrix.step),
                    "blocks of one matrix with different layouts");
            matrix.kind = kind, matrix.item = item, matrix.width = width, matrix.step = step;
            char* data = static_cast<char*>(array.data());
            for (std::size_t at = 0; at < array.shape(0); ++at)
                matrix.units.push_back(data + static_cast<std::int64_t>(at) * array.stride(0) *
                                                  static_cast<std::int64_t>(item));
        }
        require(number == 0 || matrix.units.size() * unit == rows_, "matrices with different numbers of rows");
        rows_ = matrix.units.size() * unit;
        matrices_.push_back(std::move(matrix));
    }
}

void Destination::check(const Vector<std::uint32_t>& places) const {
    std::uint32_t last = 0;
    for (std::size_t i = 0; i < places.shape(0); ++i) last = std::max(last, places.data()[i]);
    require(places.shape(0) == 0 || last < rows_, "a place beyond the destination");
}

void copy_to_places(const InputRows& packed, std::size_t first, const std::vector<Copy>& plan,
                    const std::uint32_t* places, std::size_t count, const Destination& destination) {
    for (std::size_t start = 0; start < count; start += kTileRows) {
        const std::size_t rows = std::min(kTileRows, count - start);
        for (const Copy& copy : plan) {
            const auto& matrix = packed.matrices[copy.input];
            const RowAddress address(destination, destination.matrices()[copy.output]);
            const char* row = matrix.data + (first + start) * matrix.row_bytes + copy.offset;
            const std::size_t step = matrix.row_bytes;
            switch (copy.widen == 1 ? copy.size : 0) {
                case 1: copy_fixed<1>(row, step, places + start, rows, address); break;
                case 2: copy_fixed<2>(row, step, places + start, rows, address); break;
                case 4: copy_fixed<4>(row, step, places + start, rows, address); break;
                case 8: copy_fixed<8>(row, step, places + start, rows, address); break;
                case 16: copy_fixed<16>(row, step, places + start, rows, address); break;
                case 32: copy_fixed<32>(row, step, places + start, rows, address); break;
                default:
                    if (copy.size)
                        with_row(copy.size, copy.widen, [&](auto copy_row) {
                            copy_rows_of(row, step, copy_row, copy.size * copy.widen, places + start, rows,
                                         count - start, address);
                        });
            }
        }
    }
}

void copy_rows(const std::vector<Array>& matrices, std::size_t first, const Plan& plan,
               const Vector<std::uint32_t>& places, const Destination& destination) {
    const InputRows packed(matrices);
    const std::vector<Copy> copies = checked_plan(plan, packed, destination);
    nb::gil_scoped_release unlocked;
    destination.check(places);
    require(first <= packed.rows && places.shape(0) <= packed.rows - first, "more places than rows");
    copy_to_places(packed, first, copies, places.data(), places.shape(0), destination);
}

}  // namespace rowmill
