//! Settings in a transaction: what `SET` changes stays if the transaction is committed, and what `SET LOCAL` changes does not.

use tidemill_sql::{SettingCall, Settings, Statement};

use super::answer::Answer;
use super::{Conversation, Result};
use crate::postgres::session_settings::SessionSettings;
use crate::report::{INVALID_PARAMETER_VALUE, NO_ACTIVE_TRANSACTION, Report, UNDEFINED_SETTING};

/// All settings of a session: those that clients of PostgreSQL expect, and those of the language.
#[derive(Clone)]
struct AllSettings {
    client: SessionSettings,
    language: Settings,
}

/// What the settings become when the transaction ends. What they are meanwhile, the session says.
pub(super) struct SettingsAtEnd {
    rolled_back: AllSettings,
    /// Without what `SET LOCAL` has changed.
    committed: AllSettings,
}

/// The settings at a point of a transaction.
#[derive(Clone)]
pub(super) struct SettingsInTransaction {
    now: AllSettings,
    committed: AllSettings,
}

/// A setting that cannot be what a client wants.
fn refused(why: String) -> Report {
    Report::error(INVALID_PARAMETER_VALUE, why)
}

impl Conversation<'_> {
    fn all_settings(&self) -> AllSettings {
        AllSettings { client: self.settings.clone(), language: self.session.settings().clone() }
    }

    pub(super) fn begin_settings(&mut self) {
        let now = self.all_settings();
        self.settings_at_end = Some(SettingsAtEnd { rolled_back: now.clone(), committed: now });
    }

    pub(super) fn end_settings(&mut self, is_committed: bool) -> Result<()> {
        match self.settings_at_end.take() {
            Some(end) => self.put_settings(if is_committed { end.committed } else { end.rolled_back }),
            None => Ok(()),
        }
    }

    pub(super) fn settings_in_transaction(&self) -> SettingsInTransaction {
        let now = self.all_settings();
        let committed =
            self.settings_at_end.as_ref().map_or_else(|| now.clone(), |end| end.committed.clone());
        SettingsInTransaction { now, committed }
    }

    pub(super) fn return_to_settings(&mut self, settings: SettingsInTransaction) -> Result<()> {
        let SettingsInTransaction { now, committed } = settings;
        if let Some(end) = &mut self.settings_at_end {
            end.committed = committed;
        }
        self.put_settings(now)
    }

    /// The settings are these from here on. The client is told what it wants to know of them.
    fn put_settings(&mut self, settings: AllSettings) -> Result<()> {
        let before = std::mem::replace(&mut self.settings, settings.client);
        *self.session.settings_mut() = settings.language;
        for (name, value) in self.settings.reported_since(&before) {
            self.writer.parameter(name, value)?;
        }
        Ok(())
    }

    /// Changes a setting that clients expect; `None`: to what it was when the session began.
    pub(super) fn change_setting(&mut self, name: &str, value: Option<&str>, is_local: bool) -> Result<()> {
        if is_local && self.settings_at_end.is_none() {
            self.settings.clone().change(name, value).map_err(refused)?;
            return self.warn_of_local();
        }
        let changed = self.settings.change(name, value).map_err(refused)?;
        if let Some((name, value)) = changed {
            self.writer.parameter(name, value)?;
        }
        if let Some(end) = self.settings_at_end.as_mut().filter(|_| !is_local) {
            end.committed.client.change(name, value).map_err(refused)?;
        }
        Ok(())
    }

    /// What the calls of `set_config` in a statement change. Names with a point are an application's own: nothing here reads them.
    pub(super) fn set_by_calls(&mut self, statement: &Statement) -> Result<()> {
        for SettingCall { name, value, is_local } in statement.setting_calls().map_err(Report::from)? {
            if SessionSettings::is_known(&name) {
                self.change_setting(&name, value.as_deref(), is_local)?;
            } else if !name.contains('.') {
                // Drivers change settings of PostgreSQL's own works, such as `jit`, in the middle of transactions.
                let message = format!("set_config has not changed '{name}'; SHOW ALL lists what it changes");
                self.warn(UNDEFINED_SETTING, &message)?;
            }
        }
        Ok(())
    }

    /// `SET` of a setting of the language.
    pub(super) fn set_in_language(&mut self, statement: &Statement, is_local: bool) -> Result<Answer> {
        if is_local && self.settings_at_end.is_none() {
            let before = self.session.settings().clone();
            let answer = self.execute_statement(statement);
            *self.session.settings_mut() = before;
            self.warn_of_local()?;
            return answer;
        }
        let answer = self.execute_statement(statement)?;
        if !is_local && let Some(mut end) = self.settings_at_end.take() {
            // Once more, for the time after the transaction: what is so during it can have been changed by SET LOCAL.
            std::mem::swap(self.session.settings_mut(), &mut end.committed.language);
            let again = self.execute_statement(statement);
            std::mem::swap(self.session.settings_mut(), &mut end.committed.language);
            self.settings_at_end = Some(end);
            again?;
        }
        Ok(answer)
    }

    /// All settings become what they were when the session began.
    pub(super) fn reset_settings(&mut self) -> Result<()> {
        let names: Vec<&str> = self.settings.all().map(|(name, _)| name).collect();
        for name in names {
            self.change_setting(name, None, false)?;
        }
        self.session.reset_settings();
        if let Some(end) = &mut self.settings_at_end {
            end.committed.language = self.session.settings().clone();
        }
        Ok(())
    }

    fn warn_of_local(&mut self) -> Result<()> {
        let message = "SET LOCAL lasts until its transaction ends, and no transaction is in progress";
        self.warn(NO_ACTIVE_TRANSACTION, message)
    }
}
