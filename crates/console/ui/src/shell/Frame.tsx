// The frame: navigation, search, the live badge, and the screen inside.
import { Keyboard, LogOut, Menu, Moon, Plus, Search, Sun } from "lucide-react";
import { type ReactNode, useEffect, useState } from "react";
import { Link, useLocation } from "wouter";
import { type LiveState, toggleLive, useLive } from "../api/live";
import { useStats } from "../api/queries";
import { signOut, useMay, useSignedIn } from "../api/session";
import { Dialog } from "../parts/Dialog";
import { Toasts } from "../parts/Toasts";
import { setManner, useManner, type Manner } from "../time/Time";
import { type Phrase, number, t } from "../words";
import { useFailing } from "./failing";
import type { Role } from "../api/types";
import { Brand } from "./Brand";
import { Help } from "./Help";
import { useKeys } from "./keys";
import { Palette } from "./Palette";
import { PLACES } from "./places";
import { SignInForm } from "./SignIn";
import { chooseTheme } from "./theme";

export function Frame({ children }: { children: ReactNode }) {
  const [open, setOpen] = useState<"palette" | "help" | "menu" | null>(null);
  const [path, navigate] = useLocation();
  const manner = useManner();
  const mayEdit = useMay("editor");
  const close = () => setOpen(null);
  useEffect(() => setOpen(null), [path]);
  useKeys({
    "ctrl+k": () => setOpen("palette"),
    "?": () => setOpen("help"),
    l: toggleLive,
    t: () => setManner(NEXT[manner]),
    ...(mayEdit ? { c: () => navigate("/jobs/new") } : {}),
    ...Object.fromEntries(PLACES.map((place) => [`g ${place.key}`, () => navigate(place.path)])),
  });
  return (
    <div className="frame">
      <a className="skip" href="#main">{t("Skip to the content")}</a>
      {open === "menu" ? <button type="button" className="shade" aria-label={t("Close")} onClick={close} /> : null}
      <Rail isOpen={open === "menu"} path={path} />
      <div className="main">
        <header className="topbar">
          <button type="button" className="button is-plain is-square menu-button" aria-label={t("Menu")} aria-expanded={open === "menu"} onClick={() => setOpen("menu")}><Menu /></button>
          <div id="crumbs" className="crumbs" />
          <div className="topbar-tools">
            <button type="button" className="find" onClick={() => setOpen("palette")}>
              <Search aria-hidden="true" /><span>{t("Go to")}</span><kbd>Ctrl K</kbd>
            </button>
            <LiveBadge />
            <button type="button" className="button is-plain is-square hide-small" onClick={() => setOpen("help")} aria-label={t("Keyboard")} title={t("Keyboard")}><Keyboard /></button>
            <ThemeButton />
          </div>
        </header>
        <main id="main" className="screen" tabIndex={-1}>{children}</main>
      </div>
      {open === "palette" ? <Palette onClose={close} /> : null}
      {open === "help" ? <Help onClose={close} /> : null}
      <SignInAgain />
      <Toasts />
    </div>
  );
}

const NEXT: Record<Manner, Manner> = { relative: "mine", mine: "job", job: "utc", utc: "relative" };

function Rail({ isOpen, path }: { isOpen: boolean; path: string }) {
  const stats = useStats();
  const failing = useFailing() ?? 0;
  const signedIn = useSignedIn();
  const mayEdit = useMay("editor");
  const isHere = (place: string) => (place === "/" ? path === "/" : path === place || path.startsWith(`${place}/`));
  const session = signedIn.kind === "in" || signedIn.kind === "ended" ? signedIn.session : null;
  return (
    <nav className={isOpen ? "rail is-open" : "rail"} aria-label={t("Main")}>
      <Link href="/" className="brand"><Brand />Punctual</Link>
      {PLACES.map((place) => (
        <Link key={place.path} href={place.path} className="rail-link" aria-current={isHere(place.path) ? "page" : undefined}>
          <place.icon aria-hidden="true" />{t(place.name)}
          {place.path === "/jobs" && stats.data ? <span className="count">{number(stats.data.jobs)}</span> : null}
          {place.path === "/" && failing > 0 ? <span className="count is-bad" title={t("Failing jobs")}>{number(failing)}</span> : null}
        </Link>
      ))}
      {mayEdit ? <Link href="/jobs/new" className="button" style={{ marginTop: 10 }}><Plus aria-hidden="true" />{t("New job")}</Link> : null}
      <div className="rail-foot">
        {session ? <span className="cut">{session.name ? `${session.name} · ` : ""}{t(ROLES[session.role])}</span> : null}
        <button type="button" className="button is-small" onClick={() => void signOut()}><LogOut aria-hidden="true" />{t("Sign out")}</button>
      </div>
    </nav>
  );
}

const ROLES: Record<Role, Phrase> = { viewer: "Viewer", operator: "Operator", editor: "Editor", admin: "Admin" };

const LIVE: Record<LiveState, [Phrase, Phrase]> = {
  live: ["Live", "Updates as things happen. Click to pause."],
  paused: ["Paused", "Nothing updates by itself. Click to go on."],
  reconnecting: ["Reconnecting", "The server does not answer at the moment; it is tried again."],
};

function LiveBadge() {
  const state = useLive();
  const [name, about] = LIVE[state];
  return (
    <button type="button" className="live" data-state={state} onClick={toggleLive} title={t(about)} aria-label={`${t(name)}. ${t(about)}`}>
      <i aria-hidden="true" /><span>{t(name)}</span>
    </button>
  );
}

function ThemeButton() {
  const isDark = () => getComputedStyle(document.documentElement).colorScheme === "dark" ||
    (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
  const [dark, setDark] = useState(isDark);
  const turn = () => {
    chooseTheme(dark ? "light" : "dark");
    setDark(!dark);
  };
  const name = dark ? t("Light") : t("Dark");
  return (
    <button type="button" className="button is-plain is-square" onClick={turn} aria-label={name} title={name}>
      {dark ? <Sun /> : <Moon />}
    </button>
  );
}

/** Over everything, when the session ended: what was written stays behind it. */
function SignInAgain() {
  const signedIn = useSignedIn();
  if (signedIn.kind !== "ended") return null;
  return (
    <Dialog title={t("Your session has ended")} onClose={() => undefined}>
      <p>{t("What you were doing is still here. Sign in to go on.")}</p>
      <SignInForm />
    </Dialog>
  );
}
