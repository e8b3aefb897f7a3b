//! The matrix: a workload, the machine before every call of it, and the images that a crash there may leave.
//!
//! 1. Images are spread over all calls of a run; a round has its own seed, and so its own run.
//! 2. An image counts once, by the checksum of its names and bytes; it is verified once for each set of promises.
//! 3. Everything about an image follows from the seed of its round: SEED, WORKLOAD and OP replay it alone.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use everlog::StoreOptions;
use everlog_testkit::rng::{Rng, seed_from_env};
use everlog_testkit::sim::{CrashPlan, Names, SimMachine, Snapshot, Survival};

use super::model::{Spares, State};
use super::run::{Run, STORE, Step, Stop};
use super::stale;
use super::verify::{compare, recover, settle};

/// Images of one round of one workload, before those of second crashes.
const IMAGES_A_ROUND: usize = 110;
/// One in this many images has its own crash in the middle of a call.
const MIDWAY: usize = 12;

/// A workload by name.
#[derive(Clone, Copy)]
pub struct Workload {
    pub name: &'static str,
    pub run: fn(&mut Run) -> Step,
}

/// What a matrix did.
#[derive(Default, Debug)]
pub struct Report {
    pub rounds: u64,
    pub calls: u64,
    pub images: u64,
    pub doubles: u64,
    distinct: HashSet<u64>,
    verified: HashSet<(u64, usize, Spares)>,
}

impl Report {
    pub fn distinct(&self) -> usize {
        self.distinct.len()
    }

    pub fn print(&self, name: &str) {
        println!(
            "crash {name}: {} rounds, {} calls, {} images, {} distinct, {} double crashes",
            self.rounds,
            self.calls,
            self.images,
            self.distinct.len(),
            self.doubles
        );
    }
}

struct Point {
    op: u64,
    snapshot: Snapshot,
    notes: usize,
}

/// The machine before every call, while a hook is set.
#[derive(Clone, Default)]
struct Points(Arc<Mutex<Vec<Point>>>);

impl Points {
    fn capture(&self, run: &Run) {
        let (points, tape) = (self.0.clone(), run.tape.clone());
        run.machine.before_op(move |op, snapshot| {
            let point = Point { op, snapshot: snapshot.clone(), notes: tape.len() };
            points.lock().unwrap().push(point);
        });
    }

    fn end(&self, run: &Run) -> Vec<Point> {
        run.machine.clear_hooks();
        let mut points = std::mem::take(&mut *self.0.lock().unwrap());
        let (op, snapshot) = (run.machine.ops() + 1, run.machine.snapshot());
        points.push(Point { op, snapshot, notes: run.tape.len() });
        points
    }
}

/// How one image is made of a snapshot.
#[derive(Clone, Copy, Debug)]
enum Cut {
    Process,
    Power(CrashPlan),
    Stale(CrashPlan),
}

impl Cut {
    fn choose(rng: &mut Rng) -> Self {
        let data = Survival::EACH[rng.index(Survival::EACH.len())];
        let names = Names::EACH[rng.index(Names::EACH.len())];
        let plan = CrashPlan::new(rng.next_u64(), data, names);
        match rng.below(8) {
            0 => Self::Process,
            1 => Self::Stale(plan),
            _ => Self::Power(plan),
        }
    }

    fn spares(self) -> Spares {
        if matches!(self, Self::Process) { Spares::Cache } else { Spares::Disk }
    }

    fn image(self, snapshot: &Snapshot) -> SimMachine {
        match self {
            Self::Process => snapshot.process_crash_image(),
            Self::Power(plan) => snapshot.power_loss(&plan),
            Self::Stale(plan) => {
                let machine = snapshot.power_loss(&plan);
                stale::show_old_bytes(&machine, STORE, plan.seed);
                machine
            }
        }
    }
}

/// One number of the environment.
pub fn env(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// One round of a workload.
pub struct Round<'a> {
    pub workload: Workload,
    pub seed: u64,
    pub options: StoreOptions,
    pub report: &'a mut Report,
    only_op: Option<u64>,
}

impl<'a> Round<'a> {
    pub fn new(workload: Workload, seed: u64, report: &'a mut Report) -> Self {
        let options = StoreOptions::default().with_segment_bytes(256 << 10, 256 << 10);
        Self { workload, seed, options, report, only_op: env("OP") }
    }

    pub fn start(&self) -> Run {
        let machine = SimMachine::new(self.seed);
        machine.set_log(false);
        Run::new(machine, self.seed, self.options.clone())
    }

    fn say(&self, what: &str, op: u64, cut: &str) -> String {
        format!(
            "{what}\n  crash before call {op} ({cut})\n  replay: SEED={:#x} WORKLOAD={} OP={op}",
            self.seed, self.workload.name
        )
    }

    /// Runs the workload and verifies `images` images of it. An error is the first violation.
    pub fn run(&mut self, images: usize) -> Result<(), String> {
        self.report.rounds += 1;
        let mut run = self.start();
        let points = Points::default();
        points.capture(&run);
        let outcome = catch_unwind(AssertUnwindSafe(|| (self.workload.run)(&mut run)));
        let points = points.end(&run);
        let wrong = match outcome {
            Ok(Ok(())) => None,
            Ok(Err(e)) => Some(format!("the workload ended with {e:?}")),
            Err(panic) => Some(format!("C7: the workload panicked: {}", text_of(&*panic))),
        };
        if let Some(wrong) = wrong {
            return Err(self.say(&wrong, run.machine.ops(), "no crash"));
        }
        self.report.calls += points.len() as u64;
        self.spread(&run, &points, images)?;
        self.midway(points.len() as u64, images / MIDWAY)
    }

    /// What was known, and the machine, before each call of a run.
    pub fn points(&self) -> Result<Vec<(State, u64, Snapshot)>, String> {
        let mut run = self.start();
        let points = Points::default();
        points.capture(&run);
        (self.workload.run)(&mut run).map_err(|e| format!("{e:?}"))?;
        let (mut state, mut known) = (State::default(), 0);
        let mut out = Vec::new();
        for point in points.end(&run) {
            run.tape.advance(&mut state, &mut known, point.notes);
            out.push((state.clone(), point.op, point.snapshot));
        }
        Ok(out)
    }

    /// Images at calls spread over the whole run.
    fn spread(&mut self, run: &Run, points: &[Point], images: usize) -> Result<(), String> {
        let mut rng = Rng::new(self.seed).fork(1);
        let mut chosen: Vec<(usize, u64)> = (0..images)
            .map(|i| {
                let slot = (i * points.len() + rng.index(points.len())) / images;
                (slot.min(points.len() - 1), rng.next_u64())
            })
            .collect();
        chosen.sort_unstable();
        let (mut state, mut known) = (State::default(), 0);
        for (at, seed) in chosen {
            let point = &points[at];
            run.tape.advance(&mut state, &mut known, point.notes);
            if self.only_op.is_none_or(|op| op == point.op) {
                let mut rng = Rng::new(seed);
                let cut = Cut::choose(&mut rng);
                self.image(&point.snapshot, cut, &state, point, rng)?;
            }
        }
        Ok(())
    }

    /// Runs the workload again, into a crash in the middle of a call.
    fn midway(&mut self, calls: u64, images: usize) -> Result<(), String> {
        let mut rng = Rng::new(self.seed).fork(2);
        for _ in 0..images {
            let (op, seed) = (1 + rng.below(calls), rng.next_u64());
            if self.only_op.is_some_and(|only| op != only) {
                continue;
            }
            let mut run = self.start();
            run.machine.crash_during(op, None);
            let outcome = catch_unwind(AssertUnwindSafe(|| (self.workload.run)(&mut run)));
            match outcome {
                Ok(Ok(()) | Err(Stop::Down | Stop::Killed)) => {}
                Ok(Err(e)) => {
                    return Err(self.say(&format!("the workload ended with {e:?}"), op, "midway"));
                }
                Err(panic) => {
                    let what = format!("C7: the workload panicked: {}", text_of(&*panic));
                    return Err(self.say(&what, op, "midway"));
                }
            }
            let (state, notes) = (run.state(), run.tape.len());
            let point = Point { op, snapshot: run.machine.snapshot(), notes };
            let mut rng = Rng::new(seed);
            let cut = if rng.chance(1, 2) { Cut::Process } else { Cut::choose(&mut rng) };
            self.image(&point.snapshot, cut, &state, &point, rng)?;
        }
        Ok(())
    }

    fn image(
        &mut self,
        snapshot: &Snapshot,
        cut: Cut,
        state: &State,
        point: &Point,
        mut rng: Rng,
    ) -> Result<(), String> {
        let machine = cut.image(snapshot);
        let digest = machine.digest();
        self.report.images += 1;
        self.report.distinct.insert(digest);
        if !self.report.verified.insert((digest, point.notes, cut.spares())) {
            return Ok(());
        }
        let twice = rng.chance(2, 5);
        let state = state.clone().after(cut.spares());
        let shown = format!("{cut:?}");
        let again = self
            .verify(machine, &state, cut.spares(), rng.next_u64(), twice)
            .map_err(|e| self.say(&e, point.op, &shown))?;
        let Some((state, point2)) = again else { return Ok(()) };
        let cut2 = Cut::choose(&mut rng);
        let machine = cut2.image(&point2.snapshot);
        self.report.images += 1;
        self.report.doubles += 1;
        self.report.distinct.insert(machine.digest());
        let shown = format!("{shown}, again before call {} of the recovery ({cut2:?})", point2.op);
        let state = state.after(cut2.spares());
        self.verify(machine, &state, cut2.spares(), rng.next_u64(), false)
            .map_err(|e| self.say(&e, point.op, &shown))?;
        Ok(())
    }

    /// Verifies images of a machine that went through something else than a workload of the matrix.
    pub fn aftermath(&mut self, run: &Run, images: u64, seed: u64) -> Result<(), String> {
        let point = Point { op: 0, snapshot: run.machine.snapshot(), notes: run.tape.len() };
        let state = run.state();
        for i in 0..images {
            let mut rng = Rng::new(seed).fork(i);
            let cut = if i == 0 { Cut::Process } else { Cut::choose(&mut rng) };
            self.image(&point.snapshot, cut, &state, &point, rng)?;
        }
        Ok(())
    }

    /// Recovers an image, uses it, and opens it again. With `twice`, gives a moment of that to crash at.
    fn verify(
        &self,
        machine: SimMachine,
        state: &State,
        spares: Spares,
        seed: u64,
        twice: bool,
    ) -> Result<Option<(State, Point)>, String> {
        machine.set_log(self.only_op.is_some());
        let mut run = Run::new(machine, seed, self.options.clone());
        run.before = state.clone();
        let points = Points::default();
        if twice {
            points.capture(&run);
        }
        let outcome = catch_unwind(AssertUnwindSafe(|| -> Step<Vec<Point>> {
            recover(&mut run, spares)?;
            let points = points.end(&run);
            let mut rng = Rng::new(seed).fork(3);
            let cut = if rng.chance(1, 3) { Cut::Process } else { Cut::choose(&mut rng) };
            settle(&cut.image(&run.machine.snapshot()), &run, cut.spares())?;
            if rng.chance(1, 2) {
                compare(&run)?;
            }
            Ok(points)
        }));
        if self.only_op.is_some() {
            println!("calls of the recovery, {spares:?} survives: {:#?}", run.machine.log());
        }
        let mut points = match outcome {
            Ok(Ok(points)) => points,
            Ok(Err(e)) => return Err(format!("{e:?}")),
            Err(panic) => return Err(format!("C7: it panicked: {}", text_of(&*panic))),
        };
        if !twice {
            return Ok(None);
        }
        let mut rng = Rng::new(seed).fork(4);
        let point = points.swap_remove(rng.index(points.len()));
        let mut state = state.clone();
        run.tape.advance(&mut state, &mut 0, point.notes);
        Ok(Some((state, point)))
    }
}

fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned())).unwrap_or_default()
}

/// Seed of round `n`: the first round of a run has the seed of the run.
pub fn seed_of(base: u64, round: u64) -> u64 {
    if round == 0 { base } else { Rng::new(base).fork(round).next_u64() }
}

/// Runs a workload through `ROUNDS` rounds, and fails on the first violation.
pub fn matrix(workload: Workload) {
    if std::env::var("WORKLOAD").is_ok_and(|only| only != workload.name) {
        return;
    }
    let base = seed_from_env(0xE7E7_0001).unwrap_or_else(|text| panic!("SEED={text} is no number"));
    let mut report = Report::default();
    for round in 0..env("ROUNDS").unwrap_or(1) {
        let seed = seed_of(base, round);
        if let Err(violation) = Round::new(workload, seed, &mut report).run(IMAGES_A_ROUND) {
            panic!("{violation}");
        }
    }
    report.print(workload.name);
    if env("OP").is_none() {
        assert!(report.distinct() as u64 >= report.rounds * 20, "too few distinct images");
        assert!(report.doubles * 5 >= report.images, "too few double crashes");
    }
}
