// The console: signing in, then the frame with one of the screens.
import { useQueryClient } from "@tanstack/react-query";
import { Component, type ReactNode, Suspense, lazy, useEffect } from "react";
import { Route, Switch, useLocation } from "wouter";
import { startLive } from "./api/live";
import { useSignedIn } from "./api/session";
import { Bones, Empty } from "./parts/Empty";
import { Problem } from "./parts/Problem";
import { Frame } from "./shell/Frame";
import { Screen } from "./shell/Screen";
import { SignInPage } from "./shell/SignIn";
import { t } from "./words";

const Overview = lazy(() => import("./screens/overview/Overview"));
const Jobs = lazy(() => import("./screens/jobs/Jobs"));
const JobDetail = lazy(() => import("./screens/job/JobDetail"));
const JobEditor = lazy(() => import("./screens/editor/JobEditor"));
const Runs = lazy(() => import("./screens/runs/Runs"));
const RunDetail = lazy(() => import("./screens/run/RunDetail"));
const Forecast = lazy(() => import("./screens/forecast/Forecast"));
const Executors = lazy(() => import("./screens/executors/Executors"));
const StorageScreen = lazy(() => import("./screens/storage/StorageScreen"));
const Settings = lazy(() => import("./screens/settings/Settings"));

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
    return startLive(queries);
  }, [signedIn.kind, queries]);
  return (
    <Frame>
      <Safe key={path}>
        <Suspense fallback={<Bones rows={6} />}>
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
