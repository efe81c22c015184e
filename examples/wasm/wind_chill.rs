//! The felt temperature, for a row at a time: numbers in, a number out.
//!
//! `rustc --edition 2024 --target wasm32-unknown-unknown --crate-type cdylib -O -C strip=symbols wind_chill.rs`

/// Below 5 km/h and above 10 degrees, wind does not count.
#[unsafe(no_mangle)]
pub extern "C" fn wind_chill(temperature_celsius: f64, speed_kmh: f64) -> f64 {
    if speed_kmh < 5.0 || temperature_celsius > 10.0 {
        return temperature_celsius;
    }
    let wind = speed_kmh.powf(0.16);
    13.12 + 0.6215 * temperature_celsius - 11.37 * wind + 0.3965 * temperature_celsius * wind
}
