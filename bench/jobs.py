# SPDX-License-Identifier: Apache-2.0
"""Whole jobs that people run, in a session beside the same outside. Nothing comes from a network: packages, crates,
wheels and the repository are made before, in each way's own directory."""

import os
import shutil
import statistics
import subprocess
import tarfile
import zipfile
from io import BytesIO

from fs_ways import URING, Cells, Native, apart, compare, fuse, ratio, session
from table import note

PACKAGES, MODULES, CRATES = 40, 50, 8
SMALL_FILES, MIXED = 1.40, 1.25  # the specification's rows "many small files" and "mixed workload"
# name: the program that it needs, at most so many times native, what is removed before, the command
JOBS = {
    "npm ci": (
        "npm",
        SMALL_FILES,
        ["app/node_modules", "npm-cache"],
        "cd app && HOME=$PWD npm_config_cache=$PWD/../npm-cache npm ci --offline --silent --no-audit --no-fund",
    ),
    "pip install": (
        "python3",
        SMALL_FILES,
        ["site"],
        "HOME=$PWD env/bin/python -m pip install -q --no-index --no-cache-dir --target site wheels/*",
    ),
    "git clone": ("git", SMALL_FILES, ["clone"], "git clone -q file://$PWD/repo.git clone"),
    "cargo build": ("cargo", MIXED, ["crates/target"], "cd crates && cargo build -q --offline"),
}


def make_npm(top):
    app = top / "app"
    (app / "packages").mkdir(parents=True)
    text = b"module.exports = 1;\n" * 60
    for i in range(PACKAGES):
        with tarfile.open(app / f"packages/dep{i}.tgz", "w:gz") as tar:
            files = {f"package/lib/{k}/{k}.js": text for k in range(MODULES)}
            files["package/package.json"] = b'{"name":"dep%d","version":"1.0.0"}' % i
            for name, data in files.items():
                info = tarfile.TarInfo(name)
                info.size = len(data)
                tar.addfile(info, BytesIO(data))
    wanted = ",".join(f'"dep{i}":"file:packages/dep{i}.tgz"' for i in range(PACKAGES))
    (app / "package.json").write_text(f'{{"name":"app","version":"1.0.0","dependencies":{{{wanted}}}}}')
    run = ["npm", "install", "--package-lock-only", "--offline", "--silent", "--no-audit"]
    env = {**os.environ, "HOME": str(top), "npm_config_cache": str(top / "npm-cache")}
    subprocess.run(run, cwd=app, check=True, env=env)


def make_pip(top):
    (top / "wheels").mkdir()
    for i in range(PACKAGES // 2):
        base = f"pack{i}-1.0"
        files = {f"pack{i}/m{k}.py": "value = 1\n" * 60 for k in range(MODULES)}
        files[f"{base}.dist-info/METADATA"] = f"Metadata-Version: 2.1\nName: pack{i}\nVersion: 1.0\n"
        files[f"{base}.dist-info/WHEEL"] = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        names = [*files, f"{base}.dist-info/RECORD"]
        files[names[-1]] = "".join(f"{name},,\n" for name in names)
        with zipfile.ZipFile(top / f"wheels/{base}-py3-none-any.whl", "w") as wheel:
            for name, text in files.items():
                wheel.writestr(name, text)
    subprocess.run(["/usr/bin/python3", "-m", "venv", top / "env"], check=True)


def make_git(top):
    script = """
    git init -q --bare repo.git; git init -q work; cd work
    for c in $(seq 20); do
        mkdir -p d$c; for i in $(seq 100); do seq $((c * i)) $((c * i + 200)) > d$c/f$i; done
        git add .; git -c user.name=b -c user.email=b@b commit -qm $c
    done
    git push -q ../repo.git HEAD:refs/heads/main; git -C ../repo.git symbolic-ref HEAD refs/heads/main; cd ..; rm -r work
    """
    subprocess.run(["sh", "-ec", script], cwd=top, check=True)


def make_cargo(top):
    crates = top / "crates"
    toml = '[package]\nname = "{}"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\n'
    names = [f"dep{i}" for i in range(CRATES)]
    for name in names:
        (crates / name / "src").mkdir(parents=True)
        (crates / name / "Cargo.toml").write_text(toml.format(name))
        modules = range(MODULES)
        (crates / name / "src/lib.rs").write_text("".join(f"pub mod m{k};\n" for k in modules))
        for k in modules:
            body = f"#[derive(Debug, Clone, PartialEq)]\npub struct S {{ pub a: u64, pub b: String }}\npub fn f(x: &S) -> u64 {{ x.a * {k} }}\n"
            (crates / name / f"src/m{k}.rs").write_text(body)
    (crates / "src").mkdir()
    wanted = "".join(f'{n} = {{ path = "{n}" }}\n' for n in names)
    (crates / "Cargo.toml").write_text(toml.format("app") + wanted + "[workspace]\n")
    uses = " + ".join(f"{n}::m1::f(&{n}::m1::S {{ a: 1, b: String::new() }})" for n in names)
    (crates / "src/main.rs").write_text(f'fn main() {{ println!("{{}}", {uses}); }}\n')


MAKERS = {"npm ci": make_npm, "pip install": make_pip, "git clone": make_git, "cargo build": make_cargo}


def here():
    """The jobs whose programs are installed."""
    for name, (program, *_) in JOBS.items():
        if shutil.which(program) is None:
            note(name, f"left out: no {program}")
    return {name: job for name, job in JOBS.items() if shutil.which(job[0])}


def jobs(server):
    wanted = here()

    def prepare(way):
        for name in wanted:
            MAKERS[name](way.back)

    def run(way):
        for _, _, removed, _ in wanted.values():
            for name in removed:
                shutil.rmtree(way.back / name, ignore_errors=True)
        return way.run("jobs", *(word for name, job in wanted.items() for word in (name, job[-1])))

    def show(ways, results):
        columns = [w.name for w in ways[1:]]
        table = Cells("times native", columns)
        for name in results["native"]:
            first = statistics.median(us for us, _ in results["native"][name])
            goal = {w.name: wanted[name][1] for w in ways if w.is_session}
            table.line(name, first, [(ratio(results, name, way), goal.get(way)) for way in columns])

    tools = {"toolchains": "auto"}
    ways = {
        "native": Native,
        "native again": Native,
        "/dev/fuse": session(sandbox=tools | fuse(io_uring="off")["sandbox"]),
    }
    if URING.exists() and URING.read_text().strip() == "Y":
        ways["io_uring"] = session(sandbox=tools)
    rounds = int(os.environ.get("BENCH_ROUNDS", "11"))
    apart(lambda: show(*compare(ways, prepare, run, rounds)))
