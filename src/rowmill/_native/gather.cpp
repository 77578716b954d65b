// Copies rows by their numbers, in any order, and transposes batches.
//
// Reading at random waits for DRAM, so rows are prefetched. Many rows are written with non-temporal stores: a normal
// store would read every cache line before it is overwritten. They are put together in a small buffer first, because a
// cache line that is streamed in parts may be written to memory half full.
#include "cache.hpp"
#include "native.hpp"

#include <algorithm>

namespace rowmill {

namespace {

constexpr std::size_t kPrefetchRows = 32;        // DRAM answers in about the time that many rows take to copy
constexpr std::size_t kPrefetchAgain = 8;        // early prefetches may have been evicted
constexpr std::size_t kPrefetchBytes = 1024;     // of a row; the processor foresees the rest of a longer one
constexpr std::size_t kTileRows = 512;           // copied to one matrix after another, while they are in the cache
constexpr std::size_t kBufferBytes = 4096;       // put together before they are streamed
constexpr std::size_t kLongestRow = 16u << 10;   // longer rows are not streamed

void prefetch_row(const char* row, std::size_t size) {
    for (std::size_t at = 0; at < size; at += kCacheLine) prefetch_read(row + at);
    prefetch_read(row + size - 1);
}

// Rows on their way to consecutive addresses, written as whole cache lines with non-temporal stores.
class StreamBuffer {
   public:
    explicit StreamBuffer(char* target)
        : begin_(reinterpret_cast<std::uintptr_t>(target) % kCacheLine), end_(begin_), target_(target - begin_) {}

    char* next(std::size_t size) {
        if (end_ >= kBufferBytes) flush();
        char* room = buffer_ + end_;
        end_ += size;
        return room;
    }
    void finish() {
        flush();
        if (end_ > begin_) std::memcpy(target_ + begin_, buffer_ + begin_, end_ - begin_);
    }

   private:
    void flush() {
        std::size_t at = 0;
        if (begin_) {  // the first cache line also holds bytes of others
            at = std::min(kCacheLine, end_);
            if (at < kCacheLine) return;
            std::memcpy(target_ + begin_, buffer_ + begin_, at - begin_);
            begin_ = 0;
        }
        for (; at + kCacheLine <= end_; at += kCacheLine) stream_cache_line(target_ + at, buffer_ + at);
        std::memmove(buffer_, buffer_ + at, end_ - at);
        target_ += at;
        end_ -= at;
    }

    std::size_t begin_, end_;  // bytes of the buffer that hold rows
    char* target_;             // where the buffer's first byte goes
    alignas(kCacheLine) char buffer_[kBufferBytes + kLongestRow + kCacheLine];
};

struct Source {
    const char* data;
    std::size_t row_bytes, size, widen;
    bool prefetched;  // false where another part of the same rows was just copied
};

// Give rows [start, stop) of the row numbers to `write`, and prefetch those to come.
template <class Write>
void gather_run(const Source& from, const std::int64_t* rows, std::size_t start, std::size_t stop, std::size_t count,
                Write write) {
    const std::size_t prefetched = std::min(from.row_bytes, kPrefetchBytes);
    for (std::size_t i = start; i < stop; ++i) {
        if (from.prefetched && i + kPrefetchRows < count) {
            prefetch_row(from.data + static_cast<std::size_t>(rows[i + kPrefetchRows]) * from.row_bytes, prefetched);
            prefetch_row(from.data + static_cast<std::size_t>(rows[i + kPrefetchAgain]) * from.row_bytes, prefetched);
        }
        write(from.data + static_cast<std::size_t>(rows[i]) * from.row_bytes);
    }
}

// How far places from `start` on follow each other within one unit.
std::size_t end_of_run(const std::uint32_t* places, std::size_t start, std::size_t end, const RowAddress& address) {
    const std::uint32_t first = places[start];
    const std::size_t last = std::min(end, start + address.left_in_unit(first));
    std::size_t stop = start + 1;
    while (stop < last && places[stop] - first == stop - start) ++stop;
    return stop;
}

template <class T>
void transpose_of(const char* from, std::size_t rows, std::size_t width, char* to, std::size_t step) {
    constexpr std::size_t kRows = 8;
    const T* source = reinterpret_cast<const T*>(from);
    for (std::size_t row = 0; row < rows; row += kRows) {
        const std::size_t count = std::min(kRows, rows - row);
        for (std::size_t column = 0; column < width; ++column) {
            T values[kRows];
            if (count == kRows) {
                for (std::size_t i = 0; i < kRows; ++i) values[i] = source[(row + i) * width + column];
                std::memcpy(to + column * step + row * sizeof(T), values, sizeof values);
            } else {
                for (std::size_t i = 0; i < count; ++i) values[i] = source[(row + i) * width + column];
                std::memcpy(to + column * step + row * sizeof(T), values, count * sizeof(T));
            }
        }
    }
}

}  // namespace

void gather_rows(const std::vector<Array>& matrices, const Vector<std::int64_t>& rows, const Plan& plan,
                 const Vector<std::uint32_t>& places, const Destination& destination, bool streaming) {
    const InputRows packed(matrices);
    const std::vector<Copy> copies = checked_plan(plan, packed, destination);
    nb::gil_scoped_release unlocked;
    destination.check(places);
    const std::size_t count = places.shape(0);
    require(count <= rows.shape(0), "more places than rows");
    for (std::size_t i = 0; i < count; ++i)
        require(rows.data()[i] >= 0 && static_cast<std::size_t>(rows.data()[i]) < packed.rows, "a row that is not there");
    for (std::size_t start = 0; start < count; start += kTileRows) {
        const std::size_t end = std::min(start + kTileRows, count);
        for (std::size_t line = 0; line < copies.size(); ++line) {
            const Copy& copy = copies[line];
            const auto& matrix = packed.matrices[copy.input];
            const Source from{matrix.data + copy.offset, matrix.row_bytes, copy.size, copy.widen,
                              line == 0 || copies[line - 1].input != copy.input};
            const RowAddress address(destination, destination.matrices()[copy.output]);
            const std::size_t room = copy.size * copy.widen;
            for (std::size_t at = start; room > 0 && at < end;) {
                const std::size_t stop = end_of_run(places.data(), at, end, address);
                char* to = address(places.data()[at]);
                with_row(from.size, from.widen, [&](auto copy_row) {
                    if (streaming && room > 4 && room <= kLongestRow) {
                        StreamBuffer buffer(to);
                        gather_run(from, rows.data(), at, stop, count,
                                   [&](const char* row) { copy_row(buffer.next(room), row); });
                        buffer.finish();
                    } else {
                        gather_run(from, rows.data(), at, stop, count, [&](const char* row) {
                            copy_row(to, row);
                            to += room;
                        });
                    }
                });
                at = stop;
            }
        }
    }
    stream_fence();
}

void transpose(const Array& matrix, const MutableArray& columns) {
    require(matrix.ndim() == 2 && columns.ndim() == 2 && contiguous_from(matrix, 0) && contiguous_from(columns, 1),
            "a matrix that is not 2-D and contiguous");
    require(matrix.shape(0) == columns.shape(1) && matrix.shape(1) == columns.shape(0), "shapes that do not fit");
    const Kind kind = kind_of(matrix.dtype());
    require(kind == kind_of(columns.dtype()), "dtypes that differ");
    const std::size_t rows = matrix.shape(0), width = matrix.shape(1), item = item_bytes(kind);
    const char* from = static_cast<const char*>(matrix.data());
    char* to = static_cast<char*>(columns.data());
    const std::size_t step = static_cast<std::size_t>(columns.stride(0)) * item;
    nb::gil_scoped_release unlocked;
    switch (item) {
        case 1: transpose_of<std::uint8_t>(from, rows, width, to, step); break;
        case 2: transpose_of<std::uint16_t>(from, rows, width, to, step); break;
        case 4: transpose_of<std::uint32_t>(from, rows, width, to, step); break;
        default: transpose_of<std::uint64_t>(from, rows, width, to, step);
    }
}

}  // namespace rowmill
