// The console: signing in, then the frame with one of the screens.
import { useQueryClient } from "@tanstack/react-query";
import { Component, type ReactNode, Suspense, useEffect } from "react";
import { Route, Switch, useLocation } from "wouter";
import { Refusal, UNREACHABLE } from "./api/client";
import { startLive } from "./api/live";
import { useSignedIn } from "./api/session";
import { Bones, Empty } from "./parts/Empty";
import { Problem } from "./parts/Problem";
import { Frame } from "./shell/Frame";
import { later, loadTheRest, lookForAnother, reloadIfOutdated, useIsWaiting } from "./shell/later";
import { Screen } from "./shell/Screen";
import { SignInPage } from "./shell/SignIn";
import { t } from "./words";

const Overview = later(() => import("./screens/overview/Overview"));
const Jobs = later(() => import("./screens/jobs/Jobs"));
const JobDetail = later(() => import("./screens/job/JobDetail"));
const JobEditor = later(() => import("./screens/editor/JobEditor"));
const Runs = later(() => import("./screens/runs/Runs"));
const RunDetail = later(() => import("./screens/run/RunDetail"));
const Forecast = later(() => import("./screens/forecast/Forecast"));
const Executors = later(() => import("./screens/executors/Executors"));
const StorageScreen = later(() => import("./screens/storage/StorageScreen"));
const Settings = later(() => import("./screens/settings/Settings"));

export function Console() {
  const signedIn = useSignedIn();
  if (signedIn.kind === "asking") return null;
  if (signedIn.kind === "out") return <SignInPage />;
  return <Safe><Inside /></Safe>;
}

function Inside() {
  const queries = useQueryClient();
  const signedIn = useSignedIn();
  const [path] = useLocation();
  useEffect(() => {
    if (signedIn.kind !== "in") return undefined;
    void queries.invalidateQueries();
    return startLive(queries, () => void lookForAnother());
  }, [signedIn.kind, queries]);
  useEffect(() => void loadTheRest(), []);
  useEffect(reloadIfOutdated, [path]);
  return (
    <Frame>
      <Safe key={path}>
        <Suspense fallback={<Coming />}>
          <Switch>
            <Route path="/"><Overview /></Route>
            <Route path="/jobs"><Jobs /></Route>
            <Route path="/jobs/new"><JobEditor id={null} /></Route>
            <Route path="/jobs/:id/edit">{({ id }) => <JobEditor key={id} id={Number(id)} />}</Route>
            <Route path="/jobs/:id">{({ id }) => <JobDetail key={id} id={Number(id)} />}</Route>
            <Route path="/runs"><Runs /></Route>
            <Route path="/runs/:id">{({ id }) => <RunDetail key={id} id={Number(id)} />}</Route>
            <Route path="/forecast"><Forecast /></Route>
            <Route path="/executors"><Executors /></Route>
            <Route path="/storage"><StorageScreen /></Route>
            <Route path="/settings"><Settings /></Route>
            <Route><Nowhere /></Route>
          </Switch>
        </Suspense>
      </Safe>
    </Frame>
  );
}

/** A screen that is being loaded, or waits for the server to answer. */
function Coming() {
  const isWaiting = useIsWaiting();
  return (
    <>
      {isWaiting ? <Problem error={new Refusal({ title: "", detail: "", status: UNREACHABLE }, null)} /> : null}
      <Bones rows={6} />
    </>
  );
}

function Nowhere() {
  return (
    <Screen crumbs={[{ name: t("Not found") }]}>
      <Empty title={t("There is no such page")}>{t("The address may be mistyped.")}</Empty>
    </Screen>
  );
}

/** A screen that breaks takes only itself down. */
class Safe extends Component<{ children: ReactNode }, { error: unknown }> {
  override state = { error: null };

  static getDerivedStateFromError(error: unknown) {
    return { error };
  }

  override render() {
    return this.state.error ? <Problem error={this.state.error} retry={() => location.reload()} /> : this.props.children;
  }
}
