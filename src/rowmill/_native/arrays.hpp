// Typed views of NumPy arrays, and the checks made where Python calls in.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace rowmill {

namespace nb = nanobind;

// Arrays of any dtype. Every argument is bound with noconvert(): a converted copy of an output would be lost.
using Array = nb::ndarray<nb::ro, nb::device::cpu>;
using MutableArray = nb::ndarray<nb::device::cpu>;

template <class T>
using Vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using MutableVector = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

inline void require(bool holds, const char* message) {
    if (!holds) throw std::invalid_argument(message);
}

// The number types that columns may have. A bool is a uint8; a float16 is only ever copied.
enum class Kind : std::uint8_t { i8, i16, i32, i64, u8, u16, u32, u64, f16, f32, f64 };

inline Kind kind_of(nb::dlpack::dtype dtype) {
    using Code = nb::dlpack::dtype_code;
    const auto code = static_cast<Code>(dtype.code);
    require(dtype.lanes == 1, "an array of vectors; wanted an array of numbers");
    switch (dtype.bits) {
        case 8:
            if (code == Code::Int) return Kind::i8;
            if (code == Code::UInt || code == Code::Bool) return Kind::u8;
            break;
        case 16:
            if (code == Code::Int) return Kind::i16;
            if (code == Code::UInt) return Kind::u16;
            if (code == Code::Float) return Kind::f16;
            break;
        case 32:
            if (code == Code::Int) return Kind::i32;
            if (code == Code::UInt) return Kind::u32;
            if (code == Code::Float) return Kind::f32;
            break;
        case 64:
            if (code == Code::Int) return Kind::i64;
            if (code == Code::UInt) return Kind::u64;
            if (code == Code::Float) return Kind::f64;
            break;
        default:
            break;
    }
    throw std::invalid_argument("an array of a dtype that is not a number of 1, 2, 4 or 8 bytes");
}

inline std::size_t item_bytes(Kind kind) {
    constexpr std::size_t sizes[] = {1, 2, 4, 8, 1, 2, 4, 8, 2, 4, 8};
    return sizes[static_cast<std::size_t>(kind)];
}

// Whether the dimensions from `first` on lie in memory without gaps, in C order.
template <class A>
bool contiguous_from(const A& array, std::size_t first) {
    std::int64_t expected = 1;
    if (array.size() == 0) return true;
    for (std::size_t axis = array.ndim(); axis-- > first;) {
        if (array.shape(axis) != 1 && array.stride(axis) != expected) return false;
        expected *= static_cast<std::int64_t>(array.shape(axis));
    }
    return true;
}

// Row-major matrices that hold the same rows, seen as bytes.
template <class Byte>
struct RowMatrices {
    struct Matrix {
        Byte* data;
        std::size_t row_bytes;
        std::size_t width;
        Kind kind;
    };
    std::vector<Matrix> matrices;
    std::size_t rows = 0;

    template <class A>
    explicit RowMatrices(const std::vector<A>& arrays) {
        for (const A& array : arrays) {
            require(array.ndim() == 2 && contiguous_from(array, 0), "a matrix that is not 2-D and C-contiguous");
            require(matrices.empty() || array.shape(0) == rows, "matrices with different numbers of rows");
            const Kind kind = kind_of(array.dtype());
            rows = array.shape(0);
            matrices.push_back(
                {reinterpret_cast<Byte*>(array.data()), array.shape(1) * item_bytes(kind), array.shape(1), kind});
        }
    }
};

using InputRows = RowMatrices<const char>;
using OutputRows = RowMatrices<char>;

}  // namespace rowmill
