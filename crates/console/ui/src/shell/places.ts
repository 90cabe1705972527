// The places of the console: what the navigation, the palette and the keys lead to.
import { Activity, CalendarClock, Cpu, Database, LayoutDashboard, ListChecks, type LucideIcon, Settings } from "lucide-react";
import type { Phrase } from "../words";

export interface Place {
  path: string;
  name: Phrase;
  key: string;
  icon: LucideIcon;
}

export const PLACES: Place[] = [
  { path: "/", name: "Overview", key: "o", icon: LayoutDashboard },
  { path: "/jobs", name: "Jobs", key: "j", icon: ListChecks },
  { path: "/runs", name: "Runs", key: "r", icon: Activity },
  { path: "/forecast", name: "Forecast", key: "f", icon: CalendarClock },
  { path: "/executors", name: "Executors", key: "e", icon: Cpu },
  { path: "/storage", name: "Storage", key: "s", icon: Database },
  { path: "/settings", name: "Settings", key: "t", icon: Settings },
];
