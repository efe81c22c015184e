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
//! # States
//!
//! The functions of an [`Aggregate`](crate::Aggregate) and of a [`RowOperator`](crate::RowOperator) are given rows and, for each
//! group of these rows, a state. A state has the declared columns, so a batch has as many columns of states, each with a row
//! for each group:
//!
//! ```c
//! struct output {               // of an operator
//!     int32_t        rows;      // how many rows it gives; 0 before
//!     const int32_t *from;      // for each of them, the row of the batch that it comes from; the numbers do not fall
//!     struct column  columns[]; // the columns of its result
//! };
//! void sum_update(int32_t rows, const struct column *arguments, const int32_t *group_of_row,
//!                 int32_t groups, struct column *states);
//! void sum_merge (int32_t rows, const struct column *other_states, const int32_t *group_of_row,
//!                 int32_t groups, struct column *states);
//! void sum_result(int32_t groups, const struct column *states, struct column *result);
//! void alarms    (int32_t rows, const struct column *arguments, const int32_t *group_of_row,
//!                 int32_t groups, struct column *states, struct output *output);
//! ```
//!
//! `group_of_row` says for each row which of the `groups` it belongs to, from 0 on. A new group has NULL in all columns of its
//! state, below which 0 or an empty text stands. The columns of states always have a validity. Their values can be changed in
//! place, or the pointers replaced by others. `sum_merge` is never given a state that is NULL in all columns.
//!
//! A row may change the state of its own group only, and rows must be taken in their order. What comes of them must not depend on
//! the batches that they come in. So a function must not combine what the rows of a batch have in common, unless it would be
//! the same for each row alone.
//!
//! After each batch the instance is thrown away, so nothing has to be freed.
//!
//! ```
//! assert_eq!((tidemill_wasm::batch_layout::ALLOCATE, tidemill_wasm::batch_layout::COLUMN_BYTES), ("tidemill_allocate", 12));
//! assert_eq!(tidemill_wasm::batch_layout::OUTPUT_BYTES, 8);
//! ```

/// The function that gives memory: how many bytes, and where they begin; 0 if there are none.
pub const ALLOCATE: &str = "tidemill_allocate";

/// The bytes of a column's description: three pointers.
pub const COLUMN_BYTES: usize = 12;

/// The bytes of the description of an operator's output before its columns: a number and a pointer.
pub const OUTPUT_BYTES: usize = 8;
