// All-reduces in SimGrid's S4U, for tests/bench/simulate_speed.py. Prints the simulated time [us], the messages and the
// CPU time of the simulation loop [s].
//   g++ -O2 -o simulate_simgrid simulate_simgrid.cpp -lsimgrid
//   ./simulate_simgrid ring|two-shot RANKS SIZE_BYTES OVERSUBSCRIPTION SWITCHES < STARTS
// STARTS are the ranks' start times [us]. The network is a switch where OVERSUBSCRIPTION is 0, else a fat tree of
// leaves of 8.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <simgrid/s4u.hpp>
#include <string>
#include <vector>

namespace s4u = simgrid::s4u;

constexpr int leaf    = 8;
constexpr double beta = 50e9;
static int messages   = 0;

static s4u::Mailbox* box(int source, int target)
{
  return s4u::Mailbox::by_name(std::to_string(source) + " to " + std::to_string(target));
}

/** Sends a chunk to each of some ranks, gets one from each of some, and waits for all. */
static void exchange(int own, const std::vector<int>& to, const std::vector<int>& from, double chunk)
{
  static int payload = 0;
  std::vector<void*> got(from.size());
  std::vector<s4u::CommPtr> started;
  for (const int target : to)
    started.push_back(box(own, target)->put_async(&payload, static_cast<uint64_t>(chunk)));
  for (size_t i = 0; i < from.size(); ++i)
    started.push_back(box(from[i], own)->get_async(&got[i]));
  for (auto& one : started)
    one->wait();
  messages += static_cast<int>(to.size());
}

static void rank(int own, int ranks, double chunk, bool is_ring, double start_s)
{
  s4u::this_actor::sleep_until(start_s);
  if (is_ring) {
    for (int step = 0; step < 2 * (ranks - 1); ++step)
      exchange(own, {(own + 1) % ranks}, {(own + ranks - 1) % ranks}, chunk);
    return;
  }
  std::vector<int> to, from;
  for (int step = 1; step < ranks; ++step) {
    to.push_back((own + step) % ranks);
    from.push_back((own + ranks - step) % ranks);
  }
  exchange(own, to, from, chunk);
  exchange(own, to, from, chunk);
}

int main(int argc, char** argv)
{
  s4u::Engine engine(&argc, argv);
  const bool is_ring   = std::string(argv[1]) == "ring";
  const int ranks      = std::atoi(argv[2]);
  const double chunk   = std::ceil(std::atof(argv[3]) / ranks);
  const double oversub = std::atof(argv[4]);
  auto* zone           = s4u::create_full_zone("net");
  std::vector<s4u::Host*> hosts;
  std::vector<s4u::Link*> out, in, up, down;
  for (int own = 0; own < ranks; ++own) {
    const std::string name = std::to_string(own);
    hosts.push_back(zone->create_host("rank" + name, 1e9)->seal());
    out.push_back(zone->create_link("out" + name, beta)->set_latency(5e-6)->seal());
    in.push_back(zone->create_link("in" + name, beta)->set_latency(0)->seal());
    if (oversub > 0 && own % leaf == 0) {
      up.push_back(zone->create_link("up" + name, leaf * beta / oversub)->set_latency(0)->seal());
      down.push_back(zone->create_link("down" + name, leaf * beta / oversub)->set_latency(0)->seal());
    }
  }
  for (int source = 0; source < ranks; ++source)
    for (int target = 0; target < ranks; ++target) {
      if (source == target || (is_ring && target != (source + 1) % ranks))
        continue;
      std::vector<s4u::LinkInRoute> way{s4u::LinkInRoute(out[source])};
      if (oversub > 0 && source / leaf != target / leaf) {
        way.emplace_back(up[source / leaf]);
        way.emplace_back(down[target / leaf]);
      }
      way.emplace_back(in[target]);
      zone->add_route(hosts[source]->get_netpoint(), hosts[target]->get_netpoint(), nullptr, nullptr, way, false);
    }
  zone->seal();
  for (int own = 0; own < ranks; ++own) {
    double start_us = 0;
    std::cin >> start_us;
    s4u::Actor::create("rank" + std::to_string(own), hosts[own], rank, own, ranks, chunk, is_ring, start_us * 1e-6);
  }
  const std::clock_t begin = std::clock();
  engine.run();
  const double spent = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  std::printf("%.6f %d %.6f\n", 1e6 * s4u::Engine::get_clock(), messages, spent);
  return 0;
}
