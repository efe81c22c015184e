//! `tidemill linear-road generate`.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tidemill_engine::Cause;
use tidemill_linear_road::generator::Generator;
use tidemill_linear_road::text_write::{write_event, write_history_row};

use super::traffic::Traffic;
use crate::exit::Exit;
use crate::{interrupt, quantity, terminal};

/// Text that is collected before it is written.
const WRITE_BYTES: usize = 1 << 20;

/// Generate traffic: input.csv and history.csv
///
/// The files are the same for the same arguments, on any machine.
#[derive(Debug, Args)]
#[command(after_help = concat!(
    "Example:\n  tidemill linear-road generate --expressways 2 --minutes 60 --seed 7 --out traffic/\n\n",
    exit_codes!()
))]
pub(crate) struct Generate {
    /// Folder for the two files, created if it does not exist
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    traffic: Traffic,
}

impl Generate {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let config = self.traffic.config();
        let mut generator = Generator::new(config)?;
        let stop = interrupt::flag()?;
        fs::create_dir_all(&self.out).map_err(|error| {
            let text =
                format!("cannot create the folder {}: {error}; choose another one", self.out.display());
            Cause::user(text).with_source(error)
        })?;
        let (input, history) = (self.out.join("input.csv"), self.out.join("history.csv"));

        let bar = progress_bar(u64::from(config.duration_s()));
        let mut file = File::create(&input).map_err(|error| cannot_write(&input, error))?;
        let (mut events, mut text, mut count, mut seconds) = (Vec::new(), Vec::new(), 0, 0);
        while !stop.load(Ordering::Relaxed) && generator.next_second(&mut events) {
            events.iter().for_each(|event| write_event(event, &mut text));
            count += events.len() as u64;
            seconds += 1;
            events.clear();
            if text.len() >= WRITE_BYTES {
                file.write_all(&text).map_err(|error| cannot_write(&input, error))?;
                text.clear();
                bar.set_position(seconds);
            }
        }
        file.write_all(&text).map_err(|error| cannot_write(&input, error))?;
        text.clear();
        generator.history().iter().for_each(|row| write_history_row(row, &mut text));
        fs::write(&history, &text).map_err(|error| cannot_write(&history, error))?;
        bar.finish_and_clear();

        let rows = generator.history().len() as u64;
        terminal::show(&format!(
            "{}: {} events ({})\n{}: {} rows",
            input.display(),
            quantity::count(count),
            self.traffic.describe(),
            history.display(),
            quantity::count(rows)
        ))?;
        if seconds < u64::from(config.duration_s()) {
            terminal::tell(&format!("interrupted: the files contain the first {seconds} s, complete"));
            return Ok(Exit::Interrupted);
        }
        Ok(Exit::Done)
    }
}

fn progress_bar(seconds: u64) -> ProgressBar {
    let target =
        if terminal::is_watched() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let style =
        ProgressStyle::with_template("{wide_bar} {percent} %  {eta} left").expect("the template is valid");
    ProgressBar::with_draw_target(Some(seconds), target).with_style(style)
}

fn cannot_write(path: &Path, error: io::Error) -> Cause {
    let remedy = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; free some space or choose another folder"
        }
        io::ErrorKind::FileTooLarge => "; raise the limit of file sizes (ulimit -f)",
        _ => "",
    };
    let text = format!("cannot write {}: {error}{remedy}; the files are incomplete", path.display());
    Cause::operation(text).with_source(error)
}
