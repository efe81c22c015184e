//! The experiments on a small city: the tables have a line for each partitioning, and what does not depend on the machine
//! comes out as in the paper.

use tidemill_trip_grouping::bench::{
    LOADS, Results, answer_times, answers_table, by_groups_tables, by_history_tables, by_load_tables, charts,
    compared, goals, load_of, open_questions, serial_table, statements,
};
use tidemill_trip_grouping::criteria::Criteria;
use tidemill_trip_grouping::generator::GeneratorConfig;
use tidemill_trip_grouping::partitioner::{PartitionerPlan, Partitioning};

#[test]
fn a_small_city_is_measured_and_told() {
    let city = GeneratorConfig { people: 40_000, ..GeneratorConfig::default() };
    let criteria = Criteria::default();
    let mut told = 0;
    let results = Results::measure(city, criteria, |_| told += 1).unwrap();
    assert_eq!(told, 5 + 7 * (4 + 5) + 4 * 3);
    let day = city.day().unwrap();
    for (every, serial) in LOADS.into_iter().zip(&results.serial) {
        assert_eq!(serial.savings.requests, load_of(&day.requests, every).len() as u64);
    }
    for measured in results.by_groups.iter().chain(&results.by_load) {
        let whole = results.serial(measured.every).unwrap();
        assert_eq!(measured.savings.requests, whole.savings.requests);
        assert!((measured.savings.alone_m - whole.savings.alone_m).abs() < 1e-3 * whole.savings.alone_m);
        assert!(measured.largest >= 0.999 && measured.total_time() >= measured.time());
    }
    // The spatial ones lose less than dealing out in turn.
    let saved = |partitioning| results.groups(partitioning, 16).unwrap().savings.of_distance();
    for spatial in compared().filter(|partitioning| *partitioning != Partitioning::RoundRobin) {
        assert!(saved(spatial) > 1.2 * saved(Partitioning::RoundRobin), "{spatial}");
    }

    let tables = by_groups_tables(&results) + &by_load_tables(&results);
    for name in ["rr", "spq", "skd", "apq", "akd", "sparse", "weighed"] {
        assert_eq!(
            tables.lines().filter(|line| line.starts_with(&format!("| {name} |"))).count(),
            11,
            "{tables}"
        );
    }
    assert!(!tables.contains("NaN") && !tables.contains("|  |"), "{tables}");
    assert_eq!(tables.matches("1,000 requests cost").count(), 2);
    assert_eq!(serial_table("One group", &results.serial).lines().count(), 3 + 2 + 5);
    let statements = statements(&results);
    assert_eq!(statements.len(), 12);
    let rising = statements.iter().find(|statement| statement.text == "savings rise with the load").unwrap();
    assert!(rising.holds, "{}", rising.numbers);
    // The paper's own history and period are among those that are compared.
    let own = results.history(600, 600).unwrap();
    let akd = results.groups(Partitioning::AdaptiveKdTree, 16).unwrap();
    assert_eq!((own.savings, own.largest), (akd.savings, akd.largest));
    assert_ne!(own.savings, results.history(3600, 600).unwrap().savings);
    let tables = by_history_tables(&results);
    assert_eq!(tables.lines().filter(|line| line.starts_with("| 7200 |")).count(), 3, "{tables}");
    assert!(!tables.contains("NaN") && !tables.contains("|  |"), "{tables}");
    assert_eq!(open_questions(&results).len(), 2);
    for (name, chart) in charts(&results) {
        // By load there is one group, too.
        let curves = if name.ends_with("by-load.svg") { 8 } else { 7 };
        assert_eq!(chart.matches("<polyline").count(), curves, "{name}");
        assert!(!chart.contains("NaN"), "{name} {chart}");
    }
    // Adaptive trees are as even in the busiest hour as over the day; static ones are not.
    let in_busiest_hour = |partitioning| results.groups(partitioning, 16).unwrap().largest_in_busiest_hour;
    assert!(in_busiest_hour(Partitioning::AdaptiveKdTree) < in_busiest_hour(Partitioning::StaticKdTree));
    assert!(in_busiest_hour(Partitioning::RoundRobin) < 1.02);
    // Each request is paid for, by the energy or the time that is counted.
    for measured in &results.by_groups {
        assert!(measured.used.processor_s >= 0.9 * measured.total_time().as_secs_f64());
    }
}

#[test]
fn cycles_are_answered_one_by_one() {
    let day = GeneratorConfig { people: 5000, ..GeneratorConfig::default() }.day().unwrap();
    let plan = PartitionerPlan::new(Partitioning::AdaptiveKdTree, 4, 600, &[]).unwrap();
    let answers = answer_times(&day.requests, &plan, Criteria::default(), 2).unwrap();
    let mut minutes: Vec<i64> = day.requests.iter().map(|request| request.requested / 60).collect();
    minutes.dedup();
    assert_eq!(answers.cycles.len(), minutes.len());
    assert!(answers.quantile(0.0) <= answers.quantile(0.5) && answers.quantile(0.5) <= answers.quantile(1.0));
    let waiting = (0..1500).map(|minute| {
        let end = 60 * minute;
        day.requests.iter().filter(|request| request.requested < end && request.expires >= end).count()
    });
    assert_eq!(answers.waiting_max, waiting.max().unwrap());
    let goals = |cycle_s| goals(std::slice::from_ref(&answers), cycle_s);
    assert!(
        goals(60).iter().all(|goal| goal.holds && goal.numbers.contains("2 workers ")),
        "{:?}",
        goals(60)
    );
    assert!(!goals(0)[1].holds, "nothing is answered in no time");
    assert_eq!(answers_table(&[answers]).lines().count(), 3 + 2 + 1);
}
