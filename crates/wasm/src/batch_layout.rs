//! How columns stand in the memory of a module that computes a batch at a time.
//!
//! The module exports its `memory`, a function [`ALLOCATE`] of type `(i32) -> i32`, and the function itself, of type
//! `(i32, i32, i32) -> ()`. In C:
//!
//! ```c
//! struct column {
//!     const uint8_t *validity;  // a byte for each row, 0: NULL; a null pointer: no row is NULL
//!     const void    *values;    // the values, or all texts one after the other
//!     const int32_t *offsets;   // texts and bytes only: one more than rows; text i goes from offset i to offset i + 1
//! };
//! void *tidemill_allocate(int32_t bytes);
//! void shout(int32_t rows, const struct column *arguments, struct column *result);
//! ```
//!
//! The caller allocates one piece of memory for all arguments, writes them there, and calls the function. The function fills in
//! `result`, whose pointers are null before. A value takes as many bytes as its type has, little-endian, and a Boolean
//! takes one. Texts are UTF-8. What stands below a NULL is 0 or an empty text. `values` of the arguments are aligned to 8 bytes.
//!
//! After each batch the instance is thrown away, so nothing has to be freed.
//!
//! ```
//! assert_eq!((tidemill_wasm::batch_layout::ALLOCATE, tidemill_wasm::batch_layout::COLUMN_BYTES), ("tidemill_allocate", 12));
//! ```

/// The function that gives memory: how many bytes, and where they begin; 0 if there are none.
pub const ALLOCATE: &str = "tidemill_allocate";

/// The bytes of a column's description: three pointers.
pub const COLUMN_BYTES: usize = 12;
