// Packs columns into row-major matrices, with a change of dtype on the way where one is asked for.
//
// Columns of one dtype that stand side by side are transposed together, four at a time, as many rows as a cache line of a
// column holds: rows are complete when the next ones begin. A conversion that loses a value is noted, and the caller is
// told of the column.
#include "cache.hpp"
#include "native.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

namespace rowmill {

namespace {

constexpr std::size_t kPrefetchBytes = 256;  // of a column, before they are read

template <class T>
struct Type {
    using type = T;
};

// Call `function` with the C++ type of a kind. A float16 is only copied, as a uint16, so it is none of them.
template <class Function>
auto with_type(Kind kind, Function function) {
    switch (kind) {
        case Kind::i8: return function(Type<std::int8_t>{});
        case Kind::i16: return function(Type<std::int16_t>{});
        case Kind::i32: return function(Type<std::int32_t>{});
        case Kind::i64: return function(Type<std::int64_t>{});
        case Kind::u8: return function(Type<std::uint8_t>{});
        case Kind::u16: return function(Type<std::uint16_t>{});
        case Kind::u32: return function(Type<std::uint32_t>{});
        case Kind::u64: return function(Type<std::uint64_t>{});
        case Kind::f32: return function(Type<float>{});
        case Kind::f64: return function(Type<double>{});
        default: throw std::invalid_argument("float16 values are delivered as float16 only");
    }
}

// Whether a value does not fit the target: an integer outside of its range, or a finite float beyond its largest.
// Integers that become floats are rounded, and floats that become integers are not offered.
template <class T, class S>
bool is_lost(S value) {
    if constexpr (std::is_integral_v<S> && std::is_integral_v<T>) {
        constexpr bool fits = std::is_signed_v<S> == std::is_signed_v<T> ? sizeof(S) <= sizeof(T)
                                                                         : std::is_signed_v<T> && sizeof(S) < sizeof(T);
        if constexpr (fits) return false;
        const T converted = static_cast<T>(value);
        if constexpr (std::is_signed_v<S> == std::is_signed_v<T>) return static_cast<S>(converted) != value;
        return static_cast<S>(converted) != value || (converted < T{0}) != (value < S{0});
    } else if constexpr (std::is_floating_point_v<S> && std::is_floating_point_v<T> && sizeof(S) > sizeof(T)) {
        const S size = std::fabs(value);
        return size > static_cast<S>(std::numeric_limits<T>::max()) && size < std::numeric_limits<S>::infinity();
    } else {
        return false;
    }
}

// Notes whether any value was lost.
template <class T, class S>
struct Loss {
    bool any = false;
    void note(S value) { any |= is_lost<T>(value); }
};

template <>
struct Loss<std::int32_t, std::int64_t> {  // without a comparison for each value
    std::uint64_t any = 0;
    void note(std::int64_t value) { any |= (static_cast<std::uint64_t>(value) + 0x80000000u) >> 32; }
};

template <class T>
void store(char* to, T value) {
    std::memcpy(to, &value, sizeof(T));
}

// Write one column, `width` values a row, into rows that are `row_bytes` apart.
template <class S, class T>
bool pack_column(const S* from, std::size_t width, char* to, std::size_t row_bytes, std::size_t rows) {
    Loss<T, S> lost;
    for (std::size_t row = 0; row < rows; ++row, to += row_bytes)
        for (std::size_t i = 0; i < width; ++i, ++from) {
            store(to + i * sizeof(T), static_cast<T>(*from));
            lost.note(*from);
        }
    return lost.any != 0;
}

// Transpose some values of each of four columns that stand side by side.
template <class S, class T>
inline void transpose_four(const S* const* from, char* to, std::size_t row_bytes, std::size_t rows, Loss<T, S>& lost) {
    for (std::size_t row = 0; row < rows; ++row, to += row_bytes) {
        const S read[4] = {from[0][row], from[1][row], from[2][row], from[3][row]};
        const T values[4] = {static_cast<T>(read[0]), static_cast<T>(read[1]), static_cast<T>(read[2]),
                             static_cast<T>(read[3])};
        std::memcpy(to, values, sizeof values);
        for (const S value : read) lost.note(value);
    }
}

// Write at least four columns that stand side by side, from row `first` of each on. The last four may overlap others.
template <class S, class T>
bool pack_side_by_side(const Columns::Column* columns, std::size_t count, std::size_t first, char* to,
                       std::size_t row_bytes, std::size_t rows) {
    constexpr std::size_t kRows = kCacheLine / sizeof(S), kAhead = kPrefetchBytes / sizeof(S);
    Loss<T, S> lost;
    for (std::size_t row = 0; row < rows; row += kRows)
        for (std::size_t next = 0; next < count; next += 4) {
            const std::size_t at = std::min(next, count - 4);
            const S* from[4];
            for (std::size_t k = 0; k < 4; ++k) {
                from[k] = reinterpret_cast<const S*>(columns[at + k].data) + first + row;
                prefetch_read(from[k] + kAhead);
            }
            transpose_four<S, T>(from, to + row * row_bytes + at * sizeof(T), row_bytes, std::min(kRows, rows - row), lost);
        }
    return lost.any != 0;
}

// Columns that are written in one step: one, or some of one dtype and matrix that stand side by side.
struct Step {
    std::size_t first, count;
    Kind source, target;
};

// Equal dtypes are copied as bits, so that floats, halves and bools need no code of their own.
Kind bits_of(Kind kind) {
    constexpr Kind bits[] = {Kind::u8, Kind::u16, Kind::u32, Kind::u64};
    std::size_t size = item_bytes(kind), power = 0;
    while (size >>= 1) ++power;
    return bits[power];
}

std::vector<Step> steps_of(const Columns& columns, const OutputRows& rows) {
    std::vector<Step> steps;
    const auto& all = columns.all();
    for (std::size_t i = 0; i < all.size();) {
        const auto& column = all[i];
        require(column.matrix < rows.matrices.size(), "a column of a matrix that is not there");
        const auto& matrix = rows.matrices[column.matrix];
        require(column.slot + column.width <= matrix.width, "a column beyond its matrix");
        Step step{i, 1, column.kind, matrix.kind};
        if (column.kind == matrix.kind) step.source = step.target = bits_of(column.kind);
        while (i + step.count < all.size()) {
            const auto& next = all[i + step.count];
            if (column.width != 1 || next.width != 1 || next.matrix != column.matrix || next.kind != column.kind ||
                next.slot != column.slot + step.count)
                break;
            ++step.count;
        }
        require(step.count == 1 || column.slot + step.count <= matrix.width, "a column beyond its matrix");
        steps.push_back(step);
        i += step.count;
    }
    return steps;
}

// The column of a step that lost a value among these rows.
template <class S, class T>
std::size_t find_lost(const Columns& columns, const Step& step, std::size_t first, std::size_t rows) {
    for (std::size_t i = step.first; i + 1 < step.first + step.count; ++i) {
        const auto& column = columns.all()[i];
        const S* values = reinterpret_cast<const S*>(column.data) + first * column.width;
        if (std::any_of(values, values + rows * column.width, [](S value) { return is_lost<T>(value); })) return i;
    }
    return step.first + step.count - 1;
}

template <class S, class T>
bool pack_step(const Columns& columns, const Step& step, std::size_t first, const OutputRows::Matrix& matrix,
               std::size_t row, std::size_t rows) {
    const Columns::Column* column = columns.all().data() + step.first;
    char* to = matrix.data + row * matrix.row_bytes + column->slot * sizeof(T);
    if (step.count >= 4) return pack_side_by_side<S, T>(column, step.count, first, to, matrix.row_bytes, rows);
    bool lost = false;
    for (std::size_t k = 0; k < step.count; ++k, ++column) {
        const S* from = reinterpret_cast<const S*>(column->data) + first * column->width;
        lost |= pack_column<S, T>(from, column->width, to + k * sizeof(T), matrix.row_bytes, rows);
    }
    return lost;
}

// Pack rows `first` to `first + rows` into rows `row` and on of the matrices. Gives the first column that lost a value.
std::optional<std::size_t> pack_rows(const Columns& columns, const std::vector<Step>& steps, std::size_t first,
                                     const OutputRows& packed, std::size_t row, std::size_t rows) {
    std::optional<std::size_t> found;
    for (const Step& step : steps) {
        const auto& matrix = packed.matrices[columns.all()[step.first].matrix];
        with_type(step.source, [&](auto source) {
            with_type(step.target, [&](auto target) {
                using S = typename decltype(source)::type;
                using T = typename decltype(target)::type;
                if constexpr (std::is_floating_point_v<S> && std::is_integral_v<T>)
                    throw std::invalid_argument("floats are not packed as integers");
                else if (pack_step<S, T>(columns, step, first, matrix, row, rows) && !found)
                    found = find_lost<S, T>(columns, step, first, rows);
            });
        });
    }
    return found;
}

template <class S, class T>
bool scatter_column(const Columns::Column& column, std::size_t first, const Destination::Matrix& matrix,
                    const std::vector<char*>& addresses) {
    const S* values = reinterpret_cast<const S*>(column.data) + first;
    const std::size_t offset = column.slot * matrix.step;
    Loss<T, S> lost;
    for (std::size_t i = 0; i < addresses.size(); ++i) {
        store(addresses[i] + offset, static_cast<T>(values[i]));
        lost.note(values[i]);
    }
    return lost.any != 0;
}

}  // namespace

Columns::Columns(std::vector<Array> arrays, const std::vector<std::size_t>& matrices,
                 const std::vector<std::size_t>& slots)
    : arrays_(std::move(arrays)) {
    require(arrays_.size() == matrices.size() && arrays_.size() == slots.size(), "columns need one place each");
    for (std::size_t i = 0; i < arrays_.size(); ++i) {
        const Array& array = arrays_[i];
        require((array.ndim() == 1 || array.ndim() == 2) && contiguous_from(array, 0), "a column that is not contiguous");
        require(i == 0 || array.shape(0) == rows_, "columns with different numbers of rows");
        rows_ = array.shape(0);
        const std::size_t width = array.ndim() == 2 ? array.shape(1) : 1;
        columns_.push_back(
            {static_cast<const char*>(array.data()), width, matrices[i], slots[i], kind_of(array.dtype())});
    }
}

std::optional<std::size_t> pack(const Columns& columns, std::size_t first, const std::vector<MutableArray>& matrices) {
    const OutputRows packed(matrices);
    const std::vector<Step> steps = steps_of(columns, packed);
    nb::gil_scoped_release unlocked;
    require(first <= columns.rows() && packed.rows <= columns.rows() - first, "more rows than the columns have");
    return pack_rows(columns, steps, first, packed, 0, packed.rows);
}

std::optional<std::size_t> pack_and_copy(const Columns& columns, std::size_t first, std::size_t tile_rows,
                                         const std::vector<MutableArray>& matrices, const Plan& plan,
                                         const Vector<std::uint32_t>& places, const Destination& destination) {
    const OutputRows packed(matrices);
    const InputRows tile(matrices);
    const std::vector<Step> steps = steps_of(columns, packed);
    const std::vector<Copy> copies = checked_plan(plan, tile, destination);
    nb::gil_scoped_release unlocked;
    destination.check(places);
    const std::size_t rows = places.shape(0);
    require(first <= columns.rows() && rows <= columns.rows() - first, "more rows than the columns have");
    require(tile_rows > 0 && std::min(tile_rows, rows) <= packed.rows, "a tile that is larger than its matrices");
    const bool kept = packed.rows >= rows;  // every tile has room of its own
    std::optional<std::size_t> found;
    for (std::size_t start = 0; start < rows; start += tile_rows) {
        const std::size_t count = std::min(tile_rows, rows - start), row = kept ? start : 0;
        const auto lost = pack_rows(columns, steps, first + start, packed, row, count);
        if (lost && !found) found = lost;
        copy_to_places(tile, row, copies, places.data() + start, count, destination);
    }
    return found;
}

std::optional<std::size_t> scatter_columns(const Columns& columns, std::size_t first,
                                           const Vector<std::uint32_t>& places, const Destination& destination) {
    const std::size_t rows = places.shape(0);
    nb::gil_scoped_release unlocked;
    destination.check(places);
    require(first <= columns.rows() && rows <= columns.rows() - first, "more rows than the columns have");
    std::optional<std::size_t> found;
    std::vector<char*> addresses(rows);
    const Destination::Matrix* before = nullptr;
    for (std::size_t i = 0; i < columns.all().size(); ++i) {
        const auto& column = columns.all()[i];
        require(column.matrix < destination.matrices().size(), "a column of a matrix that is not there");
        const auto& matrix = destination.matrices()[column.matrix];
        if (!matrix.step) continue;
        require(column.width == 1 && column.slot < matrix.width, "a column beyond its matrix");
        if (before == nullptr || before->units != matrix.units || before->item != matrix.item) {
            const RowAddress address(destination, matrix);
            for (std::size_t row = 0; row < rows; ++row) addresses[row] = address(places.data()[row]);
            before = &matrix;
        }
        const Kind source = column.kind == matrix.kind ? bits_of(column.kind) : column.kind;
        with_type(source, [&](auto from) {
            with_type(column.kind == matrix.kind ? source : matrix.kind, [&](auto to) {
                using S = typename decltype(from)::type;
                using T = typename decltype(to)::type;
                if constexpr (std::is_floating_point_v<S> && std::is_integral_v<T>)
                    throw std::invalid_argument("floats are not packed as integers");
                else if (scatter_column<S, T>(column, first, matrix, addresses) && !found)
                    found = i;
            });
        });
    }
    return found;
}

}  // namespace rowmill
