//! Casts as PostgreSQL has them: between times, texts and numbers.

pub(super) mod local_times;
pub(super) mod rounded_casts;
pub(super) mod text_casts;
pub(super) mod time_casts;
pub(super) mod untyped_texts;
pub(super) mod value_texts;
