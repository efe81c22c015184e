//! Users: who there is survives a restart, and somebody can always change it.

use tidemill_service::{Role, Runtime, User};

use crate::runtimes::{open, planner};

fn user(name: &str, role: Role) -> User {
    User { name: name.to_owned(), role, verifier: format!("of {name}") }
}

#[test]
fn users_are_there_again_when_the_database_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalogue");
    let runtime = open(planner(), &path);
    assert!(!runtime.has_users());
    runtime.create_user(user("ada", Role::Owner)).unwrap();
    runtime.create_user(user("bob", Role::Reader)).unwrap();
    runtime.create_user(user("eve", Role::Writer)).unwrap();
    runtime.alter_user("bob", Some(Role::Writer), Some("another".to_owned())).unwrap();
    runtime.drop_user("eve").unwrap();
    drop(runtime);

    let again = open(planner(), &path);
    let bob = User { verifier: "another".to_owned(), ..user("bob", Role::Writer) };
    assert_eq!(again.users(), [user("ada", Role::Owner), bob]);
    assert_eq!(again.user("eve"), None);
}

#[test]
fn an_owner_stays_as_long_as_there_are_others() {
    let runtime = Runtime::new(planner());
    let why = |result: Result<(), _>| {
        result.map_err(|cause: tidemill_engine::Cause| cause.to_string()).unwrap_err()
    };
    assert!(why(runtime.create_user(user("bob", Role::Writer))).contains("must be an owner"));
    runtime.create_user(user("ada", Role::Owner)).unwrap();
    assert!(why(runtime.create_user(user("ada", Role::Reader))).contains("already exists"));
    runtime.create_user(user("bob", Role::Reader)).unwrap();
    assert!(why(runtime.drop_user("ada")).contains("only owner"));
    assert!(why(runtime.alter_user("ada", Some(Role::Writer), None)).contains("only owner"));
    assert!(why(runtime.alter_user("bbo", None, None)).contains("did you mean 'bob'?"));
    runtime.alter_user("bob", Some(Role::Owner), None).unwrap();
    runtime.drop_user("ada").unwrap();
    // The last one may go: nobody is locked out then.
    runtime.drop_user("bob").unwrap();
    assert!(!runtime.has_users());
    for wrong in ["", "a:b", "a\nb", &"a".repeat(64)] {
        assert!(why(runtime.create_user(user(wrong, Role::Owner))).contains("name"), "{wrong}");
    }
}

#[test]
fn only_the_owner_of_the_folder_reads_what_proves_passwords() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalogue");
    open(planner(), &path).create_user(user("ada", Role::Owner)).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o077, 0);
}
