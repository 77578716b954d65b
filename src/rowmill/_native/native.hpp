// The functions that `module.cpp` binds, by the file that defines them.
#pragma once

#include "arrays.hpp"
#include "placement.hpp"

#include <optional>

namespace rowmill {

// Memory that is lent: what is made of it keeps it alive, and its end appends it to a deque. In C++ because a signal
// that comes while a Python destructor runs would be lost.
class Lease {
   public:
    Lease(nb::object memory, nb::object returned) : memory_(std::move(memory)), returned_(std::move(returned)) {}
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    ~Lease() {
        const nb::error_scope unchanged;  // an exception may be on its way
        PyObject* done = PyObject_CallMethod(returned_.ptr(), "append", "O", memory_.ptr());
        if (done == nullptr) PyErr_Clear();  // the interpreter ends: nobody wants the memory back
        Py_XDECREF(done);
    }
    nb::object interface() const { return memory_.attr("__array_interface__"); }

   private:
    nb::object memory_, returned_;
};

// place.cpp
void copy_rows(const std::vector<Array>& matrices, std::size_t first, const Plan& plan,
               const Vector<std::uint32_t>& places, const Destination& destination);

// pack.cpp
class Columns {
   public:
    struct Column {
        const char* data;
        std::size_t width;  // values a row
        std::size_t matrix, slot;
        Kind kind;
    };
    Columns(std::vector<Array> arrays, const std::vector<std::size_t>& matrices, const std::vector<std::size_t>& slots);
    const std::vector<Column>& all() const { return columns_; }
    std::size_t rows() const { return rows_; }

   private:
    std::vector<Array> arrays_;  // what keeps the memory alive
    std::vector<Column> columns_;
    std::size_t rows_ = 0;
};
std::optional<std::size_t> pack(const Columns& columns, std::size_t first, const std::vector<MutableArray>& matrices);
std::optional<std::size_t> pack_and_copy(const Columns& columns, std::size_t first, std::size_t tile_rows,
                                         const std::vector<MutableArray>& matrices, const Plan& plan,
                                         const Vector<std::uint32_t>& places, const Destination& destination);
std::optional<std::size_t> scatter_columns(const Columns& columns, std::size_t first,
                                           const Vector<std::uint32_t>& places, const Destination& destination);

// gather.cpp
void gather_rows(const std::vector<Array>& matrices, const Vector<std::int64_t>& rows, const Plan& plan,
                 const Vector<std::uint32_t>& places, const Destination& destination, bool streaming);
void transpose(const Array& matrix, const MutableArray& columns);

// lists.cpp
void copy_lists(const Array& source, const Vector<std::int64_t>& starts, const Vector<std::uint32_t>& places,
                const Vector<std::int64_t>& offsets, const MutableArray& values);

// shuffle.cpp
void shuffle(const MutableVector<std::uint32_t>& items, std::uint64_t key);
void shuffle_segments(const MutableVector<std::uint32_t>& items, std::size_t segment, std::uint64_t key);
void random_places(const MutableVector<std::uint32_t>& places, const MutableVector<std::uint16_t>& drawn,
                   const MutableVector<std::uint32_t>& shuffled, std::size_t bins, std::uint64_t key);
void feistel_rows(const MutableVector<std::int64_t>& rows, std::uint64_t first, std::uint64_t total,
                  std::uint64_t height, std::uint64_t width, const Vector<std::uint32_t>& keys);

// sums.cpp
std::pair<std::int64_t, std::int64_t> add_powers(const Array& values, const MutableVector<std::int64_t>& low,
                                                 const MutableVector<std::int64_t>& high);

// hashing.cpp
std::pair<std::size_t, std::size_t> count_into(const Vector<std::int64_t>& values, std::size_t start,
                                               const MutableVector<std::int64_t>& keys,
                                               const MutableVector<std::int64_t>& counts, std::size_t used,
                                               std::size_t room);
std::size_t put_counts(const Vector<std::int64_t>& new_keys, const Vector<std::int64_t>& new_counts,
                       const MutableVector<std::int64_t>& keys, const MutableVector<std::int64_t>& counts);
void build_narrow_index(const Vector<std::int64_t>& keys, const MutableVector<std::int64_t>& table);
void find_narrow(const Vector<std::int64_t>& values, const Vector<std::int64_t>& table,
                 const MutableVector<std::int32_t>& places);
void build_wide_index(const Vector<std::int64_t>& keys, const MutableVector<std::int64_t>& table);
void find_wide(const Vector<std::int64_t>& values, const Vector<std::int64_t>& table,
               const MutableVector<std::int32_t>& places);
void hash_numbers(const Vector<std::int64_t>& values, const MutableVector<std::uint64_t>& hashes);
void hash_bytes(const Vector<std::int64_t>& offsets, const Vector<std::uint8_t>& data,
                const MutableVector<std::uint64_t>& hashes);
void draw_folds(const Vector<std::int64_t>& rows, std::uint64_t seed, std::uint64_t folds,
                const MutableVector<std::uint8_t>& drawn);

// sparse.cpp
struct SparseMatrix {
    Vector<std::int64_t> starts, columns;
    Vector<double> values;
};
void dot_rows(const Vector<std::int64_t>& left, const Vector<std::int64_t>& right, const SparseMatrix& a,
              const SparseMatrix& b, const MutableVector<double>& products);

}  // namespace rowmill
