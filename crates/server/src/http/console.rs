//! The console: pages that show in a browser what runs. They are part of the program, and ask nobody but this server.

use hyper::StatusCode;
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderValue, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};

use super::answer::{Answer, whole};

/// What a page may load, and from where: from this server only, and no code within the page.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'",
);

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

macro_rules! files {
    ($($path:literal $file:literal $content:expr;)*) => {
        /// All files: path, content, type.
        const FILES: &[(&str, &[u8], &str)] =
            &[$(($path, include_bytes!(concat!("../../../../console/", $file)), $content)),*];
    };
}

files! {
    "/" "index.html" "text/html; charset=utf-8";
    "/icon.svg" "icon.svg" "image/svg+xml";
    "/style.css" "style.css" STYLE;
    "/app.js" "app.js" SCRIPT;
    "/editor.js" "editor.js" SCRIPT;
    "/format.js" "format.js" SCRIPT;
    "/graph.js" "graph.js" SCRIPT;
    "/overview.js" "overview.js" SCRIPT;
    "/plot.js" "plot.js" SCRIPT;
    "/query.js" "query.js" SCRIPT;
    "/status.js" "status.js" SCRIPT;
    "/ask.js" "ask.js" SCRIPT;
    "/colors.js" "colors.js" SCRIPT;
    "/completion.js" "completion.js" SCRIPT;
    "/gateways.js" "gateways.js" SCRIPT;
    "/journal.js" "journal.js" SCRIPT;
    "/limit.js" "limit.js" SCRIPT;
    "/logs.js" "logs.js" SCRIPT;
    "/map.js" "map.js" SCRIPT;
    "/places.js" "places.js" SCRIPT;
    "/polled.js" "polled.js" SCRIPT;
    "/plan.js" "plan.js" SCRIPT;
    "/rows.js" "rows.js" SCRIPT;
    "/statement.js" "statement.js" SCRIPT;
    "/store.js" "store.js" SCRIPT;
    "/vendor/htm-preact.js" "vendor/htm-preact.js" SCRIPT;
    "/vendor/uplot.js" "vendor/uplot.js" SCRIPT;
    "/vendor/uplot.css" "vendor/uplot.css" STYLE;
    "/vendor/LICENSES.txt" "vendor/LICENSES.txt" "text/plain; charset=utf-8";
}

/// The file of a path.
pub(super) fn file(path: &str) -> Option<Answer> {
    let (_, bytes, content) = FILES.iter().find(|(known, ..)| *known == path)?;
    let mut answer = whole(StatusCode::OK, HeaderValue::from_static(content), *bytes);
    let headers = answer.headers_mut();
    // Another version of the program has other files under the same names.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(CONTENT_SECURITY_POLICY, POLICY);
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    Some(answer)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::FILES;

    #[test]
    fn every_file_of_the_console_is_served() {
        let folder = Path::new(&std::env::var("CARGO_MANIFEST_DIR").unwrap()).join("../../console");
        for folder in [folder.clone(), folder.join("vendor")] {
            for entry in std::fs::read_dir(folder).unwrap() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                let is_served = FILES.iter().any(|(path, ..)| path.ends_with(&format!("/{name}")));
                assert!(is_served || name == "index.html" || name == "vendor", "{name} is not served");
            }
        }
    }

    #[test]
    fn the_first_page_is_small() {
        // What is loaded before a plot is drawn.
        let first = FILES.iter().filter(|(path, ..)| !path.contains("uplot") && !path.ends_with(".txt"));
        let bytes: usize = first.map(|(_, bytes, _)| bytes.len()).sum();
        assert!(bytes < 200_000, "{bytes} bytes");
    }
}
